/* The sections that are ours. */
#include <math.h>

#include "runtime/config-sections.h"

#define NULLABLE TN_FIELD_NULLABLE

static const char *const platforms[] = {"systrap", "kvm", NULL};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};

#define TENDON struct tn_config_tendon
static const struct tn_field tendon_rows[] = {
    TN_STRING("runtime", TENDON, runtime, .fallback = "jail", .env = "TENDON_RUNTIME",
              .help = "backend for sandboxes that name none"),
    TN_STRING("state", TENDON, state, .env = "TENDON_STATE",
              .help = "state directory [$XDG_STATE_HOME/tendon]"),
    TN_STRING("hand", TENDON, hand, .flags = NULLABLE, .env = "TENDON_HAND_PROGRAM",
              .help = "the static tendon-hand [beside the program, ../lib/tendon, PATH]"),
    TN_STRINGS("runtime_path", TENDON, runtime_path, .env = "TENDON_RUNTIME_PATH",
               .help = "directories searched for tendon-runtime-NAME before PATH"),
    TN_DOUBLE("start_timeout", TENDON, start_timeout, .fallback = "60",
              .env = "TENDON_START_TIMEOUT", .min = 0.001, .max = 1e8,
              .help = "seconds until a new sandbox must be ready"),
    TN_DOUBLE("stop_timeout", TENDON, stop_timeout, .fallback = "20", .env = "TENDON_STOP_TIMEOUT",
              .min = 0.001, .max = 1e8, .help = "seconds for pausing, stopping and removing one"),
    TN_BOOL("cache_hand", TENDON, cache_hand, .fallback = "true", .env = "TENDON_CACHE_HAND",
            .help =
                "e2b, daytona, modal and runloop keep a snapshot of each image with the hand in "
                "it, so that only the first sandbox has it uploaded"),
    TN_INT("warm", TENDON, warm, .env = "TENDON_WARM", .min = 0, .max = 10000,
           .help = "warm sandboxes that tendon new has wait for the next one of the same kind"),
    TN_STRING("isolation", TENDON, isolation, .fallback = "native", .env = "TENDON_ISOLATION",
              .words = tn_isolations,
              .help = "gvisor, kata: no sandbox with less, whatever its spec says"),
    TN_STRING("log_level", TENDON, log_level, .fallback = "info", .env = "TENDON_LOG",
              .words = levels, .help = "what is logged at least"),
};
const struct tn_fields tn_config_tendon_fields = TN_FIELDS(tendon_rows);

/* Accounts, keys of machines and services, and what tells one machine from another. */
#define ETC_HIDDEN                                                                        \
    "shadow,shadow-,gshadow,gshadow-,sudoers,sudoers.d,security/opasswd,ssh,ssl/private," \
    "krb5.keytab,machine-id,apt/auth.conf,apt/auth.conf.d,docker,containers,kubernetes,"  \
    "NetworkManager,netplan,wpa_supplicant,wireguard,tendon"

#define JAIL struct tn_config_jail
static const struct tn_field jail_rows[] = {
    TN_STRING("rootfs", JAIL, rootfs, .flags = NULLABLE, .env = "TENDON_JAIL_ROOTFS",
              .help = "image for sandboxes that name none [this machine's system directories]"),
    TN_STRINGS("host_paths", JAIL, host_paths, .env = "TENDON_JAIL_HOST_PATHS",
               .fallback = "/usr,/bin,/sbin,/lib,/lib32,/lib64,/libx32,/etc,/opt,/var/lib/dpkg",
               .help = "system directories of this machine that a sandbox sees"),
    TN_STRINGS("etc_hidden", JAIL, etc_hidden, .env = "TENDON_JAIL_ETC_HIDDEN",
               .fallback = ETC_HIDDEN, .help = "entries of /etc that it never sees"),
    TN_STRING("memory", JAIL, memory, .flags = NULLABLE, .fallback = "4g",
              .env = "TENDON_JAIL_MEMORY", .help = "memory of a sandbox that names none; 0: all"),
    TN_DOUBLE("cpus", JAIL, cpus, .env = "TENDON_JAIL_CPUS", .min = 0, .max = 4096,
              .help = "processors it may keep busy; 0: all"),
    TN_INT("pids", JAIL, pids, .fallback = "512", .env = "TENDON_JAIL_PIDS", .min = 0,
           .max = 4194304, .help = "processes and threads; 0: no limit"),
    TN_INT("open_files", JAIL, open_files, .fallback = "4096", .env = "TENDON_JAIL_OPEN_FILES",
           .min = 0, .max = 1073741816, .help = "open files of a process; 0: no limit"),
    TN_STRING("disk", JAIL, disk, .flags = NULLABLE, .env = "TENDON_JAIL_DISK",
              .help = "what it may write to its file system [no limit]"),
    TN_WORD("network", JAIL, network, tn_networks, .fallback = "default",
            .env = "TENDON_JAIL_NETWORK",
            .help = "network of a sandbox that names none: none, open, allow or host [open; none "
                    "where the kernel has no gate]"),
    TN_STRINGS("allow", JAIL, allow, .env = "TENDON_JAIL_ALLOW",
               .fallback = "@packages,@git,@models",
               .help = "what network allow reaches where the sandbox does not say"),
    TN_DOUBLE("ask_seconds", JAIL, ask_seconds, .fallback = "60", .env = "TENDON_JAIL_ASK_SECONDS",
              .min = 0, .max = 3600,
              .help = "seconds that a connection without a rule waits for an answer where a "
                      "sandbox asks (--ask); 0: nobody is asked"),
    TN_BOOL("suspend", JAIL, suspend, .env = "TENDON_JAIL_SUSPEND",
            .help = "make jails that can be suspended to disk; needs root and criu 4.2"),
    TN_BOOL("unprivileged", JAIL, unprivileged, .fallback = "true",
            .env = "TENDON_JAIL_UNPRIVILEGED", .help = "use a user namespace even as root"),
    TN_BOOL("no_new_privileges", JAIL, no_new_privileges, .env = "TENDON_JAIL_NO_NEW_PRIVILEGES",
            .help = "setuid programs (sudo, su) gain nothing; always so where root inside is root "
                    "outside"),
    TN_BOOL("layer_images", JAIL, layer_images, .fallback = "true",
            .env = "TENDON_JAIL_LAYER_IMAGES",
            .help = "keep changed files in one file where this kernel can mount it, as root"),
    TN_STRING("runsc", JAIL, runsc, .flags = NULLABLE, .env = "TENDON_JAIL_RUNSC",
              .help = "gVisor's program, for isolation gvisor [runsc in PATH]"),
    TN_STRING("platform", JAIL, platform, .fallback = "systrap", .env = "TENDON_JAIL_PLATFORM",
              .words = platforms,
              .help = "how gVisor gets at system calls: systrap, or kvm where there is /dev/kvm"),
};
const struct tn_fields tn_config_jail_fields = TN_FIELDS(jail_rows);

#define DOCKER struct tn_config_docker
static const struct tn_field docker_rows[] = {
    TN_STRING("host", DOCKER, host, .flags = NULLABLE, .env = "DOCKER_HOST",
              .help = "the engine: unix:///..., tcp://..., [unix:///var/run/docker.sock]"),
    TN_BOOL("tls_verify", DOCKER, tls_verify, .env = "DOCKER_TLS_VERIFY",
            .help = "talk TLS and check the engine's certificate"),
    TN_STRING("cert_path", DOCKER, cert_path, .flags = NULLABLE, .env = "DOCKER_CERT_PATH",
              .help = "directory of ca.pem, cert.pem and key.pem [~/.docker]"),
    TN_STRING("host_addr", DOCKER, host_addr, .flags = NULLABLE, .env = "DOCKER_HOST_ADDR",
              .help = "where published ports are reached"),
    TN_STRING("image", DOCKER, image, .flags = NULLABLE, .env = "TENDON_DOCKER_IMAGE",
              .help = "image for sandboxes that name none [the sandbox section decides]"),
    TN_STRING("memory", DOCKER, memory, .flags = NULLABLE, .fallback = "4g",
              .env = "TENDON_DOCKER_MEMORY",
              .help = "memory of a sandbox that names none; 0: no limit"),
    TN_DOUBLE("cpus", DOCKER, cpus, .env = "TENDON_DOCKER_CPUS", .min = 0, .max = 4096,
              .help = "processors it may keep busy; 0: all"),
    TN_INT("pids", DOCKER, pids, .fallback = "1024", .env = "TENDON_DOCKER_PIDS", .min = 0,
           .max = 4194304, .help = "processes and threads; 0: no limit"),
    TN_STRINGS("cap_drop", DOCKER, cap_drop, .env = "TENDON_DOCKER_CAP_DROP",
               .fallback = "NET_RAW,MKNOD,AUDIT_WRITE,SETFCAP,SETPCAP,SYS_CHROOT",
               .help = "capabilities to drop; ALL drops all"),
    TN_BOOL("no_new_privileges", DOCKER, no_new_privileges, .fallback = "true",
            .env = "TENDON_DOCKER_NO_NEW_PRIVILEGES", .help = "setuid programs gain nothing"),
    TN_STRING("port_range", DOCKER, port_range, .flags = NULLABLE,
              .env = "TENDON_DOCKER_PORT_RANGE",
              .help = "FIRST-LAST for published ports [the engine chooses]"),
    TN_STRING("overlays", DOCKER, overlays, .flags = NULLABLE, .env = "SANDBOX_VOLUME_OVERLAYS",
              .help = "directory for the layers of overlay volumes"),
    TN_STRING("runsc", DOCKER, runsc, .fallback = "runsc", .env = "TENDON_DOCKER_RUNSC",
              .help = "the engine's name of the runtime that is gVisor, for isolation gvisor"),
    TN_BOOL("runsc_gate", DOCKER, runsc_gate, .env = "TENDON_DOCKER_RUNSC_GATE",
            .help = "docker.runsc is set up with --network=host --host-uds=create: its containers "
                    "have the gate"),
    TN_WORD("network", DOCKER, network, tn_networks, .fallback = "default",
            .env = "TENDON_DOCKER_NETWORK",
            .help = "network of a sandbox that names none: none, open, allow, host or bridge "
                    "[open; bridge where a container cannot have a gate]"),
    TN_STRINGS("allow", DOCKER, allow, .env = "TENDON_DOCKER_ALLOW",
               .fallback = "@packages,@git,@models",
               .help = "what network allow reaches where the sandbox does not say"),
};
const struct tn_fields tn_config_docker_fields = TN_FIELDS(docker_rows);

#define LOCAL struct tn_config_local
static const struct tn_field local_rows[] = {
    TN_INT("initial_warm", LOCAL, initial_warm, .env = "INITIAL_NUM_WARM_SERVERS", .min = 0,
           .max = 10000,
           .help = "warm ones that tendon new has wait, if this is more than tendon.warm"),
    TN_INT("desired_warm", LOCAL, desired_warm, .env = "DESIRED_NUM_WARM_SERVERS", .min = 0,
           .max = 10000, .help = "the same, if this is more than both"),
};
const struct tn_fields tn_config_local_fields = TN_FIELDS(local_rows);

#define REMOTE struct tn_config_remote
static const char *const dialects[] = {
    [TN_DIALECT_AUTO] = "auto",
    [TN_DIALECT_NATIVE] = "native",
    [TN_DIALECT_OPENHANDS] = "openhands",
    NULL,
};
static const struct tn_field remote_rows[] = {
    TN_WORD("dialect", REMOTE, dialect, dialects, .fallback = "auto",
            .env = "TENDON_REMOTE_DIALECT",
            .help = "what the service speaks: auto (ask it), native or openhands"),
    TN_STRING("runtime", REMOTE, runtime, .flags = NULLABLE, .env = "TENDON_REMOTE_RUNTIME",
              .help = "runtime of the service that sandboxes live in; null: its default"),
};
const struct tn_fields tn_config_remote_fields = TN_FIELDS(remote_rows);

#define E2B struct tn_config_e2b
static const struct tn_field e2b_rows[] = {
    TN_STRING("api_key", E2B, api_key, .flags = NULLABLE | TN_FIELD_SECRET, .env = "E2B_API_KEY",
              .help = "key of the platform [core.e2b_api_key]"),
    TN_STRING("domain", E2B, domain, .fallback = "e2b.app", .env = "E2B_DOMAIN",
              .help = "where the platform is: api.DOMAIN, PORT-ID.DOMAIN"),
    TN_STRING("api_url", E2B, api_url, .flags = NULLABLE, .env = "E2B_API_URL",
              .help = "its control plane [https://api.DOMAIN]"),
    TN_STRING("sandbox_url", E2B, sandbox_url, .flags = NULLABLE, .env = "E2B_SANDBOX_URL",
              .help = "one address for all sandboxes [https://PORT-ID.DOMAIN]"),
    TN_BOOL("debug", E2B, debug, .env = "E2B_DEBUG",
            .help = "no platform at all: the one envd that listens on port 49983 here"),
    TN_STRING("template", E2B, template, .fallback = "base", .env = "TENDON_E2B_TEMPLATE",
              .help = "template of sandboxes that name no image"),
    TN_DOUBLE("timeout", E2B, timeout, .fallback = "300", .env = "TENDON_E2B_TIMEOUT", .min = 10,
              .max = 86400,
              .help = "seconds after the last use until the platform pauses a kept sandbox, and "
                      "ends any other"),
    TN_BOOL("public_ports", E2B, public_ports, .env = "TENDON_E2B_PUBLIC_PORTS",
            .help = "ports need no token: whoever knows the name of one gets in"),
};
const struct tn_fields tn_config_e2b_fields = TN_FIELDS(e2b_rows);

#define RUNLOOP struct tn_config_runloop
static const struct tn_field runloop_rows[] = {
    TN_STRING("api_key", RUNLOOP, api_key, .flags = NULLABLE | TN_FIELD_SECRET,
              .env = "RUNLOOP_API_KEY", .help = "key of the platform [core.runloop_api_key]"),
    TN_STRING("base_url", RUNLOOP, base_url, .fallback = "https://api.runloop.ai",
              .env = "RUNLOOP_BASE_URL", .help = "its API"),
    TN_STRING("tunnel_url", RUNLOOP, tunnel_url, .flags = NULLABLE,
              .env = "TENDON_RUNLOOP_TUNNEL_URL",
              .help = "one address for all tunnels [https://PORT-KEY.tunnel.HOST where base_url is "
                      "https://api.HOST, else base_url]"),
    TN_STRING("blueprint", RUNLOOP, blueprint, .flags = NULLABLE, .env = "TENDON_RUNLOOP_BLUEPRINT",
              .help = "name or id of the blueprint of devboxes that name no image, or snapshot:ID; "
                      "null: the platform's own"),
    TN_STRING("size", RUNLOOP, size, .flags = NULLABLE, .env = "TENDON_RUNLOOP_SIZE",
              .help = "resource_size_request: X_SMALL, SMALL, MEDIUM, LARGE, X_LARGE or XX_LARGE; "
                      "null: that of the blueprint"),
    TN_STRING("setup", RUNLOOP, setup, .flags = NULLABLE, .env = "TENDON_RUNLOOP_SETUP",
              .help = "command that a new devbox runs before it is handed out"),
    TN_DOUBLE("timeout", RUNLOOP, timeout, .fallback = "600", .env = "TENDON_RUNLOOP_TIMEOUT",
              .min = 10, .max = 86400,
              .help = "seconds after the last use until the platform suspends a kept devbox, and "
                      "ends any other"),
    TN_BOOL("public_ports", RUNLOOP, public_ports, .env = "TENDON_RUNLOOP_PUBLIC_PORTS",
            .help = "ports need no token: whoever knows the name of one gets in"),
};
const struct tn_fields tn_config_runloop_fields = TN_FIELDS(runloop_rows);

#define MODAL struct tn_config_modal
static const struct tn_field modal_rows[] = {
    TN_STRING("token_id", MODAL, token_id, .flags = NULLABLE | TN_FIELD_SECRET,
              .env = "MODAL_TOKEN_ID",
              .help = "token of the platform [core.modal_api_token_id, the profile's]"),
    TN_STRING("token_secret", MODAL, token_secret, .flags = NULLABLE | TN_FIELD_SECRET,
              .env = "MODAL_TOKEN_SECRET",
              .help = "its secret half [core.modal_api_token_secret, the profile's]"),
    TN_STRING("server_url", MODAL, server_url, .flags = NULLABLE, .env = "MODAL_SERVER_URL",
              .help = "its API [the profile's, https://api.modal.com]"),
    TN_STRING("environment", MODAL, environment, .flags = NULLABLE, .env = "MODAL_ENVIRONMENT",
              .help = "environment of the account [the profile's, the account's own]"),
    TN_STRING("profile", MODAL, profile, .flags = NULLABLE, .env = "MODAL_PROFILE",
              .help = "table of config_path that counts [the one that is active]"),
    TN_STRING("config_path", MODAL, config_path, .fallback = "~/.modal.toml",
              .env = "MODAL_CONFIG_PATH", .help = "profiles, as `modal token` writes them"),
    TN_STRING("app", MODAL, app, .fallback = "openhands", .env = "TENDON_MODAL_APP",
              .help = "app in which sandboxes are; made if it is missing"),
    TN_STRING("image", MODAL, image, .fallback = "debian:stable-slim", .env = "TENDON_MODAL_IMAGE",
              .help = "image of sandboxes that name none: of a registry, or an id (im-...)"),
    TN_STRING("image_builder_version", MODAL, builder, .fallback = "2025.06",
              .env = "MODAL_IMAGE_BUILDER_VERSION", .help = "how the platform builds images"),
    TN_STRING("region", MODAL, region, .flags = NULLABLE, .env = "TENDON_MODAL_REGION",
              .help = "region of sandboxes; null: the platform decides"),
    TN_STRING("tunnel_url", MODAL, tunnel_url, .flags = NULLABLE, .env = "TENDON_MODAL_TUNNEL_URL",
              .help = "one address for all tunnels [each has its own where server_url is https, "
                      "else server_url]"),
    TN_DOUBLE("timeout", MODAL, timeout, .fallback = "3600", .env = "TENDON_MODAL_TIMEOUT",
              .min = 10, .max = 86400,
              .help = "seconds that a sandbox may run in all, in use or not; then the platform "
                      "ends it"),
    TN_BOOL("sandbox_v2", MODAL, v2, .fallback = "true", .env = "MODAL_SANDBOX_V2",
            .help = "the newer calls for sandboxes, where the platform has them"),
};
const struct tn_fields tn_config_modal_fields = TN_FIELDS(modal_rows);

#define DAYTONA struct tn_config_daytona
static const struct tn_field daytona_rows[] = {
    TN_STRING("api_key", DAYTONA, api_key, .flags = NULLABLE | TN_FIELD_SECRET,
              .env = "DAYTONA_API_KEY", .help = "key of the platform [core.daytona_api_key]"),
    TN_STRING("jwt_token", DAYTONA, jwt_token, .flags = NULLABLE | TN_FIELD_SECRET,
              .env = "DAYTONA_JWT_TOKEN", .help = "instead of a key; needs organization_id"),
    TN_STRING("organization_id", DAYTONA, organization_id, .flags = NULLABLE,
              .env = "DAYTONA_ORGANIZATION_ID", .help = "whose sandboxes they are, with jwt_token"),
    TN_STRING("api_url", DAYTONA, api_url, .flags = NULLABLE, .env = "DAYTONA_API_URL",
              .help = "its API [core.daytona_api_url, https://app.daytona.io/api]"),
    TN_STRING("target", DAYTONA, target, .flags = NULLABLE, .env = "DAYTONA_TARGET",
              .help = "region of sandboxes [core.daytona_target, the platform's own]"),
    TN_STRING("toolbox_url", DAYTONA, toolbox_url, .flags = NULLABLE,
              .env = "TENDON_DAYTONA_TOOLBOX_URL",
              .help = "where toolboxes are [what the platform says, if it is of the domain of "
                      "api_url; else api_url]"),
    TN_STRING("snapshot", DAYTONA, snapshot, .flags = NULLABLE, .env = "TENDON_DAYTONA_SNAPSHOT",
              .help = "snapshot of sandboxes that name no image [the platform's own]"),
    TN_BOOL("images", DAYTONA, images, .env = "TENDON_DAYTONA_IMAGES",
            .help = "the image of a sandbox is one, which the platform pulls, instead of a "
                    "snapshot"),
    TN_INT("auto_stop", DAYTONA, auto_stop, .fallback = "15", .env = "TENDON_DAYTONA_AUTO_STOP",
           .min = 1, .max = 100000,
           .help = "minutes after the last use until the platform stops a sandbox"),
    TN_BOOL("disable_auto_stop", DAYTONA, disable_auto_stop, .env = "DAYTONA_DISABLE_AUTO_STOP",
            .help = "the platform stops none by itself"),
    TN_BOOL("public_ports", DAYTONA, public_ports, .env = "TENDON_DAYTONA_PUBLIC_PORTS",
            .help = "ports need no token: whoever knows the name of one gets in"),
};
const struct tn_fields tn_config_daytona_fields = TN_FIELDS(daytona_rows);

char *tn_config_state(const struct tn_config *config)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (config->tendon.state)
        return tn_strdup(config->tendon.state);
    if (state && *state == '/')
        return tn_asprintf("%s/tendon", state);
    if (home && *home == '/')
        return tn_asprintf("%s/.local/state/tendon", home);
    return tn_strdup("/var/lib/tendon");
}
