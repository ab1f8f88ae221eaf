/* Configuration: defaults, then config.toml, then the environment, then flags.
 *
 * The file is OpenHands' own config.toml, read as it is, plus sections of ours ([tendon], [jail],
 * [docker], [local], [service], [template.NAME], [pool.NAME]).  Sections are field tables; one row
 * is the default, the TOML key, the environment variable and the help text.  Where a value came
 * from is remembered. */
#ifndef TN_RUNTIME_CONFIG_H
#define TN_RUNTIME_CONFIG_H

#include "base/error.h"
#include "base/field.h"
#include "runtime/spec.h"
#include "security/settings.h"

/* [core], as far as a runtime is concerned. */
struct tn_config_core {
    char *runtime;
    char *workspace_base, *workspace_mount_path, *workspace_mount_path_in_sandbox;
    char *workspace_mount_rewrite;
    bool run_as_openhands, enable_browser, init_git_in_empty_workspace, debug;
    char *git_user_name, *git_user_email;
    char *file_store, *file_store_path, *cache_dir;
    int64_t max_concurrent_conversations, conversation_max_age_seconds;
    char *jwt_secret, *e2b_api_key, *daytona_api_key, *runloop_api_key, *modal_api_token_id,
        *modal_api_token_secret, *search_api_key; /* secrets */
    char *daytona_api_url, *daytona_target, *mcp_host;
};

struct tn_config_sandbox {
    char *remote_runtime_api_url, *local_runtime_url, *api_key;
    bool keep_runtime_alive, pause_closed_runtimes, rm_all_containers;
    char *base_container_image, *runtime_container_image;
    struct tn_opt_int user_id; /* unset: the caller's */
    double timeout, remote_runtime_init_timeout, remote_runtime_api_timeout;
    bool remote_runtime_enable_retries;
    char *remote_runtime_class;
    double remote_runtime_resource_factor;
    bool enable_auto_lint, use_host_network;
    struct tn_str_list additional_networks;
    char *runtime_binding_address;
    struct tn_str_list runtime_extra_build_args;
    bool initialize_plugins, force_rebuild_runtime;
    char *runtime_extra_deps;
    struct tn_json *runtime_startup_env_vars; /* object */
    char *browsergym_eval_env, *platform;
    double close_delay;
    bool enable_gpu;
    char *cuda_visible_devices;
    struct tn_json *docker_runtime_kwargs; /* object or NULL */
    char *selected_repo;
    struct tn_str_list trusted_dirs;
    struct tn_opt_int vscode_port;
    char *volumes;
};

struct tn_config_kubernetes {
    char *namespace, *ingress_domain, *pvc_storage_size, *pvc_storage_class, *snapshot_class;
    char *resource_cpu_request, *resource_memory_request, *resource_memory_limit;
    char *image_pull_secret, *ingress_tls_secret;
    char *node_selector_key, *node_selector_val, *tolerations_yaml;
    bool privileged, restricted;
    /* Ours. */
    char *kubeconfig, *context; /* NULL: as kubectl finds them */
    int reach;                  /* enum tn_kubernetes_reach */
    char *hand_image;           /* the hand alone; NULL: it is put in by exec */
    char *hand_pull_secret;     /* for its pull, whoever the sandbox is for; NULL: none */
    struct tn_str_list allow;   /* rules of network allow where a spec names none */
    int hand_volume;            /* enum tn_kubernetes_hand */
    int workspace_volume;       /* enum tn_kubernetes_workspace */
    struct tn_str_list claims;  /* names of claims that sandboxes may mount; "*": any */
    char *service_account, *priority_class, *ingress_class;
    char *affinity_yaml, *topology_spread_yaml;
    char *resource_cpu_limit, *resource_ephemeral_limit; /* NULL: none */
    char *gpu_resource, *runtime_class_gvisor, *runtime_class_kata;
    double schedule_seconds;        /* that no node may have room for a pod */
    int agent_sandbox;              /* enum tn_kubernetes_agent */
    char *sandbox_pool;             /* a SandboxWarmPool; NULL: none */
    struct tn_str_list near;        /* the cluster's own nets among the public ones */
    struct tn_str_list nameservers; /* that are no pods */
};
enum tn_kubernetes_reach { TN_KUBERNETES_AUTO, TN_KUBERNETES_POD, TN_KUBERNETES_PROXY };
enum tn_kubernetes_hand { TN_KUBERNETES_COPY, TN_KUBERNETES_IMAGE };
enum tn_kubernetes_agent { TN_KUBERNETES_NEVER, TN_KUBERNETES_WHERE, TN_KUBERNETES_ALWAYS };
enum tn_kubernetes_workspace { TN_KUBERNETES_ANY, TN_KUBERNETES_CLAIM, TN_KUBERNETES_EMPTY };

struct tn_config_mcp {
    struct tn_json *sse_servers, *shttp_servers, *stdio_servers; /* lists, or NULL */
};

/* [tendon]: what is ours and concerns no single backend. */
struct tn_config_tendon {
    char *runtime; /* default backend; "jail"; core.runtime counts only where it is set */
    char *state;   /* state directory; default $XDG_STATE_HOME/tendon */
    char *hand;    /* path of the static hand; default: beside the program, ../lib/tendon, PATH */
    struct tn_str_list runtime_path;    /* where tendon-runtime-NAME is looked for before PATH */
    double start_timeout, stop_timeout; /* seconds */
    bool cache_hand;                    /* clouds keep what the hand was put into */
    int64_t warm;                       /* warm sandboxes to keep for the spec of a create */
    char *isolation;                    /* of tn_isolations: what every sandbox has at least */
    char *log_level;
};

/* [jail] */
struct tn_config_jail {
    char *rootfs;                  /* default of spec.image; NULL: the host's system directories */
    struct tn_str_list host_paths; /* the allowlist for the host's system directories */
    struct tn_str_list etc_hidden; /* entries of /etc that are never shown */
    char *memory;                  /* default limits, as in struct tn_spec */
    double cpus;
    int64_t pids, open_files;
    char *disk;
    int network;              /* default of spec.network: enum tn_network */
    struct tn_str_list allow; /* and of spec.allow */
    double ask_seconds;       /* that what no rule allows waits where spec.ask is set [60] */
    bool suspend;             /* jails can be suspended to disk [false] */
    bool unprivileged;        /* use a user namespace even as root [true] */
    bool no_new_privileges;   /* setuid programs gain nothing [false] */
    bool layer_images;        /* layers may be images, where this kernel mounts them [true] */
    char *runsc;              /* gVisor's program; NULL: the one in PATH */
    char *platform;           /* of gVisor: "systrap" or "kvm" */
};

/* [docker] */
struct tn_config_docker {
    char *host;      /* DOCKER_HOST */
    bool tls_verify; /* DOCKER_TLS_VERIFY */
    char *cert_path; /* DOCKER_CERT_PATH */
    char *host_addr; /* DOCKER_HOST_ADDR: where published ports are reached */
    char *image;     /* default image; NULL: the sandbox section decides */
    char *memory;    /* default limits */
    double cpus;
    int64_t pids;
    struct tn_str_list cap_drop;
    bool no_new_privileges;
    char *port_range; /* "30000-39999", or NULL: the engine chooses */
    char *overlays;   /* SANDBOX_VOLUME_OVERLAYS */
    char *runsc;      /* the engine's name of the runtime that is gVisor */
    bool runsc_gate;  /* which uses sockets of this kernel, and makes those of the hand */
    int network;      /* enum tn_network of a sandbox that names none */
    struct tn_str_list allow;
};

/* [local] */
struct tn_config_local {
    int64_t initial_warm, desired_warm; /* INITIAL_NUM_WARM_SERVERS, DESIRED_NUM_WARM_SERVERS */
};

/* [remote]; the rest is in [sandbox], where OpenHands has it. */
enum tn_dialect {
    TN_DIALECT_AUTO, /* asks the service */
    TN_DIALECT_NATIVE,
    TN_DIALECT_OPENHANDS,
};
struct tn_config_remote {
    int dialect;   /* enum tn_dialect */
    char *runtime; /* of the service's own; NULL: its default */
};

/* [e2b] */
struct tn_config_e2b {
    char *api_key, *domain, *api_url, *sandbox_url; /* E2B_... */
    bool debug;                                     /* E2B_DEBUG: one envd on this machine */
    char *template;                                 /* of sandboxes that name no image */
    double timeout;    /* seconds that the vendor gives an unused one */
    bool public_ports; /* whoever knows the name of one gets in */
};

/* [runloop] */
struct tn_config_runloop {
    char *api_key, *base_url; /* RUNLOOP_... */
    char *tunnel_url;         /* one address for all tunnels */
    char *blueprint;          /* of devboxes that name no image */
    char *size, *setup;       /* what they are launched with */
    double timeout;           /* seconds that the vendor gives an unused one */
    bool public_ports;        /* whoever knows the name of one gets in */
};

/* [modal] */
struct tn_config_modal {
    char *token_id, *token_secret, *server_url, *environment, *profile,
        *config_path; /* MODAL_... */
    char *app;        /* which sandboxes are made in */
    char *image;      /* of sandboxes that name none */
    char *builder;    /* MODAL_IMAGE_BUILDER_VERSION */
    char *region;     /* where they run; NULL: the platform decides */
    char *tunnel_url; /* one address for all tunnels */
    double timeout;   /* seconds that one may run in all */
    bool v2;          /* MODAL_SANDBOX_V2 */
};

/* [daytona] */
struct tn_config_daytona {
    char *api_key, *jwt_token, *organization_id, *api_url, *target; /* DAYTONA_... */
    char *toolbox_url; /* where toolboxes are; NULL: what the platform says */
    char *snapshot;    /* of sandboxes that name no image; NULL: the platform's own */
    bool images;       /* images are images, not snapshots */
    int64_t auto_stop; /* minutes that the platform gives an unused one */
    bool disable_auto_stop;
    bool public_ports; /* whoever knows the name of one gets in */
};

/* [service]: `tendon serve`. */
struct tn_service_options {
    struct tn_str_list listen;  /* "127.0.0.1:7171", "[::1]:7171", "unix:PATH", "fd:3" */
    char *tls_cert, *tls_key;   /* PEM files; both or none */
    bool insecure;              /* may listen beyond loopback without TLS */
    char *url;                  /* how clients reach it, without a final slash; NULL: derived */
    struct tn_str_list hosts;   /* further Host names that are ours */
    struct tn_str_list origins; /* web pages of others that may call it */
    char *preview_domain;       /* "localhost": PORT-ID.localhost */
    bool public_previews;       /* tenants may open ports to everybody */
    char *tcp_ports;            /* "30000-30099", for sandboxes; NULL: any, on loopback alone */
    bool open_metrics;          /* /metrics needs no key */

    /* What tenants may ask for; an administrator may have anything. */
    struct tn_str_list runtimes; /* by name; empty: the configured one alone */
    struct tn_str_list images;   /* patterns; empty: any, pulled without this machine's logins */
    bool build_network;          /* steps of builds have the engine's, without a gate */
    char *sandbox_memory;        /* ceilings of one sandbox; unset: the runtime's own limit, */
    struct tn_opt_double sandbox_cpus; /* 0: none */
    struct tn_opt_int sandbox_pids, sandbox_open_files;
    char *sandbox_disk; /* the keeper sees to it where the runtime does not */

    int64_t max_sandboxes;     /* that run at a time; over it the oldest is paused */
    int64_t max_secrets;       /* of a tenant; 0: any number */
    int64_t max_tcp_ports;     /* of a tenant; 0: none */
    int64_t max_starts;        /* creations at a time; the rest waits in line; 0: by cores */
    double start_seconds;      /* for a sandbox to start, time in line included */
    double idle_pause_seconds; /* unused for so long: paused; 0: never */
    double idle_stop_seconds;  /* unused for so long: stopped; 0: never */
    double ttl_seconds;        /* whatever it does, it is deleted after so long; 0: never */
    char *disk_reserve;        /* no sandbox starts with less than this left ("1g"), */
    char *memory_reserve;      /* nor with less memory of the machine */
    char *request_memory;      /* that bodies and answers may take together ("512m") */
    bool pause_old_sandboxes;  /* at the limit: pause the tenant's oldest instead of refusing */
    bool pause_others;         /* and then the oldest of other tenants */
    bool tools;                /* of [mcp] are for tenants, too */
    char *confirm_url;         /* is told of actions that wait for their confirmation; or NULL */
    char *confirm_secret;      /* signs what it is told; or NULL */
    double drain_seconds;      /* for requests under way when it is asked to stop */
    bool stop_sandboxes;       /* a graceful stop stops them; else they are handed over */
    bool resume_on_use;        /* an action on a paused sandbox wakes it */
};

struct tn_config {
    struct tn_config_core core;
    struct tn_config_sandbox sandbox;
    struct tn_config_kubernetes kubernetes;
    struct tn_security_settings security;
    struct tn_config_mcp mcp;
    struct tn_config_tendon tendon;
    struct tn_config_jail jail;
    struct tn_config_docker docker;
    struct tn_config_local local;
    struct tn_config_remote remote;
    struct tn_config_e2b e2b;
    struct tn_config_runloop runloop;
    struct tn_config_modal modal;
    struct tn_config_daytona daytona;
    struct tn_service_options service;
    struct tn_config_private *private; /* templates, origins, warnings */
};

enum tn_origin {
    TN_FROM_DEFAULT,
    TN_FROM_FILE,
    TN_FROM_ENV,
    TN_FROM_FLAG,
};
extern const char *const tn_origin_words[];

/* Reads all sources.  path: the file to read; NULL: $TENDON_CONFIG, ./config.toml,
 * $XDG_CONFIG_HOME/tendon/config.toml, the first that exists, or none.  An unknown key in our
 * sections and in [sandbox], [security], [mcp], [kubernetes] is an error that names the nearest
 * known one; in [core] and for unknown sections it is a warning. */
int tn_config_load(struct tn_config *c, const char *path, struct tn_error *err);
/* Defaults only: no file, no environment. */
void tn_config_init(struct tn_config *c);
void tn_config_done(struct tn_config *c);

/* "section.key" from a flag (`--set jail.memory=1g`); the last word. */
int tn_config_set(struct tn_config *c, const char *name, const char *text, struct tn_error *err);

/* -1 with err, which says that there is no such setting and names the nearest. */
int tn_config_unknown(const char *name, struct tn_error *err);

/* Where the value of "section.key" came from; it must exist. */
enum tn_origin tn_config_origin(const struct tn_config *c, const char *name);

/* Every field with its section, effective value (secrets: "***") and origin. */
typedef void (*tn_config_fn)(const char *section, const struct tn_field *row, const char *value,
                             enum tn_origin origin, const char *where, void *ctx);
void tn_config_each(const struct tn_config *c, tn_config_fn fn, void *ctx);
/* Writes the value of one of those as member `key`; secrets are hidden here too. */
void tn_config_show(const struct tn_config *c, const char *section, const struct tn_field *row,
                    const char *key, struct tn_jw *w);
/* What was odd but not wrong, one sentence each. */
typedef void (*tn_config_warning_fn)(const char *text, void *ctx);
void tn_config_warnings(const struct tn_config *c, tn_config_warning_fn fn, void *ctx);

/* The [template.NAME] section, a table for tn_spec_fields; NULL when there is none. */
const struct tn_toml *tn_config_template(const struct tn_config *c, const char *name);
/* The name of the template at that place, from 0 on; NULL after the last. */
const char *tn_config_template_name(const struct tn_config *c, size_t i);

/* A [pool.NAME] section: warm sandboxes that `tendon serve` keeps. */
struct tn_config_pool {
    char *template; /* NULL: a sandbox that nobody asked anything special of */
    int64_t target, minimum, burst;
};
typedef int (*tn_config_pool_fn)(const char *name, const struct tn_config_pool *pool, void *ctx);
/* Non-zero from fn stops and is returned. */
int tn_config_pools(const struct tn_config *c, tn_config_pool_fn fn, void *ctx,
                    struct tn_error *err);

/* Its walls, of tn_isolations: what the configuration demands of all, or what it says where that is
 * stronger. */
const char *tn_config_isolation(const struct tn_config *c, const struct tn_spec *spec);
/* Whether it has to run on gVisor: it says so, or the configuration demands it of all. */
bool tn_config_wants_gvisor(const struct tn_config *c, const struct tn_spec *spec);
/* The network of a jail whose spec says that (enum tn_network): never the default.  Where nobody
 * says anything it is open, or none on a machine that cannot: tn_config_network_is_said. */
int tn_config_jail_network(const struct tn_config *c, int said);
bool tn_config_network_is_said(const struct tn_config *c, int said);
/* What [core] and [sandbox] say about every sandbox (runtime, workspace, volumes, variables...),
 * and then what the template says (NULL: none); spec must be initialised, flags come afterwards.
 * Limits and images of the backends' own sections are left to them. */
int tn_config_spec(const struct tn_config *c, const char *template, struct tn_spec *spec,
                   struct tn_error *err);

/* The state directory, on the heap: the configured one, or tendon in $XDG_STATE_HOME,
 * ~/.local/state or /var/lib. */
char *tn_config_state(const struct tn_config *config);

/* -1 with err unless it is a URL that a server of [mcp] may have. */
int tn_config_check_mcp_url(const char *url, struct tn_error *err);
/* A list as mcp.stdio_servers has it, checked and in its long form; the caller's to end. */
int tn_config_settle_programs(const struct tn_json *list, struct tn_json **out,
                              struct tn_error *err);

/* Appends, as Markdown, a page about every section, key and variable: docs/config.md. */
void tn_config_describe(struct tn_buf *out);

#endif
