/* The sections that an OpenHands config.toml has, as far as a runtime is concerned. */
#include <math.h>

#include "runtime/config-sections.h"

#define NULLABLE TN_FIELD_NULLABLE
#define SECRET (TN_FIELD_NULLABLE | TN_FIELD_SECRET)

#define CORE struct tn_config_core
static const struct tn_field core_rows[] = {
    TN_STRING("runtime", CORE, runtime, .fallback = "docker", .env = "RUNTIME",
              .help = "backend; counts only where it is set, and tendon.runtime is not"),
    TN_STRING("workspace_base", CORE, workspace_base, .flags = NULLABLE, .env = "WORKSPACE_BASE",
              .help = "directory of this machine to work in (sandbox.volumes is the newer way)"),
    TN_STRING("workspace_mount_path", CORE, workspace_mount_path, .flags = NULLABLE,
              .env = "WORKSPACE_MOUNT_PATH",
              .help = "directory to mount as workspace [workspace_base]"),
    TN_STRING("workspace_mount_path_in_sandbox", CORE, workspace_mount_path_in_sandbox,
              .fallback = "/workspace", .env = "WORKSPACE_MOUNT_PATH_IN_SANDBOX",
              .help = "where the workspace is inside"),
    TN_STRING("workspace_mount_rewrite", CORE, workspace_mount_rewrite, .flags = NULLABLE,
              .env = "WORKSPACE_MOUNT_REWRITE",
              .help = "FROM:TO, replaced in workspace_base to get workspace_mount_path"),
    TN_BOOL("run_as_openhands", CORE, run_as_openhands, .fallback = "true",
            .env = "RUN_AS_OPENHANDS", .help = "work as the user openhands instead of root"),
    TN_BOOL("enable_browser", CORE, enable_browser, .fallback = "true", .env = "ENABLE_BROWSER",
            .help = "allow the browser"),
    TN_BOOL("init_git_in_empty_workspace", CORE, init_git_in_empty_workspace,
            .env = "INIT_GIT_IN_EMPTY_WORKSPACE",
            .help = "make the workspace a git repository when none is cloned"),
    TN_BOOL("debug", CORE, debug, .env = "DEBUG", .help = "say more"),
    TN_STRING("git_user_name", CORE, git_user_name, .fallback = "openhands", .env = "GIT_USER_NAME",
              .help = "git's user.name inside"),
    TN_STRING("git_user_email", CORE, git_user_email, .fallback = "openhands@all-hands.dev",
              .env = "GIT_USER_EMAIL", .help = "git's user.email inside"),
    TN_STRING("file_store", CORE, file_store, .fallback = "local", .env = "FILE_STORE",
              .help = "where conversations are kept; OpenHands' own, no effect here"),
    TN_STRING("file_store_path", CORE, file_store_path, .fallback = "~/.openhands",
              .env = "FILE_STORE_PATH", .help = "directory of a local file store; no effect here"),
    TN_STRING("cache_dir", CORE, cache_dir, .fallback = "/tmp/cache", .env = "CACHE_DIR",
              .help = "directory for caches; no effect here"),
    TN_INT("max_concurrent_conversations", CORE, max_concurrent_conversations, .fallback = "3",
           .env = "MAX_CONCURRENT_CONVERSATIONS", .min = 0, .max = INFINITY,
           .help = "conversations of one user that may run at once; no effect here"),
    TN_INT("conversation_max_age_seconds", CORE, conversation_max_age_seconds, .fallback = "864000",
           .env = "CONVERSATION_MAX_AGE_SECONDS", .min = 0, .max = INFINITY,
           .help = "when an idle conversation is old; no effect here"),
    TN_STRING(
        "jwt_secret", CORE, jwt_secret, .flags = SECRET, .env = "JWT_SECRET",
        .help = "secret from which keys of sessions are derived; no effect here: keys are random"),
    TN_STRING("mcp_host", CORE, mcp_host, .fallback = "localhost:3000", .env = "MCP_HOST",
              .help = "where the MCP server of the application listens"),
    TN_STRING("search_api_key", CORE, search_api_key, .flags = SECRET, .env = "SEARCH_API_KEY",
              .help = "key of the Tavily search"),
};
const struct tn_fields tn_config_core_fields = TN_FIELDS(core_rows);

#define SANDBOX struct tn_config_sandbox
static const struct tn_field sandbox_rows[] = {
    TN_STRING("remote_runtime_api_url", SANDBOX, remote_runtime_api_url,
              .fallback = "http://localhost:8000", .env = "SANDBOX_REMOTE_RUNTIME_API_URL",
              .help = "remote: the runtime service"),
    TN_STRING("local_runtime_url", SANDBOX, local_runtime_url, .fallback = "http://localhost",
              .env = "SANDBOX_LOCAL_RUNTIME_URL", .help = "where published ports are reached"),
    TN_BOOL("keep_runtime_alive", SANDBOX, keep_runtime_alive, .env = "SANDBOX_KEEP_RUNTIME_ALIVE",
            .help = "sandboxes outlive their maker"),
    TN_BOOL("pause_closed_runtimes", SANDBOX, pause_closed_runtimes, .fallback = "true",
            .env = "SANDBOX_PAUSE_CLOSED_RUNTIMES",
            .help = "remote: pause a kept sandbox when it is closed"),
    TN_BOOL("rm_all_containers", SANDBOX, rm_all_containers, .env = "SANDBOX_RM_ALL_CONTAINERS",
            .help =
                "no effect here: only what is ours is ever ended; tendon rm --all does all of it"),
    TN_STRING("api_key", SANDBOX, api_key, .flags = SECRET, .env = "SANDBOX_API_KEY",
              .help = "remote: key of the runtime service"),
    TN_STRING("base_container_image", SANDBOX, base_container_image,
              .fallback = "nikolaik/python-nodejs:python3.12-nodejs22", .flags = NULLABLE,
              .env = "SANDBOX_BASE_CONTAINER_IMAGE", .help = "image that sandboxes start from"),
    TN_STRING("runtime_container_image", SANDBOX, runtime_container_image, .flags = NULLABLE,
              .env = "SANDBOX_RUNTIME_CONTAINER_IMAGE",
              .help = "finished image; goes before base_container_image"),
    TN_OPT_INT("user_id", SANDBOX, user_id, .flags = NULLABLE, .env = "SANDBOX_USER_ID", .min = 0,
               .max = 4294967294.0,
               .help = "uid inside [docker: 1000; jail: root, who is nobody outside]"),
    TN_DOUBLE("timeout", SANDBOX, timeout, .fallback = "120", .env = "SANDBOX_TIMEOUT",
              .min = 0.001, .max = 1e8, .help = "seconds for an action that names none"),
    TN_DOUBLE("remote_runtime_init_timeout", SANDBOX, remote_runtime_init_timeout,
              .fallback = "180", .env = "SANDBOX_REMOTE_RUNTIME_INIT_TIMEOUT", .min = 0.001,
              .max = 1e8, .help = "remote: seconds until a sandbox must be ready"),
    TN_DOUBLE("remote_runtime_api_timeout", SANDBOX, remote_runtime_api_timeout, .fallback = "180",
              .env = "SANDBOX_REMOTE_RUNTIME_API_TIMEOUT", .min = 0.001, .max = 1e8,
              .help = "remote: seconds for a call of the service"),
    TN_BOOL("remote_runtime_enable_retries", SANDBOX, remote_runtime_enable_retries,
            .fallback = "true", .env = "SANDBOX_REMOTE_RUNTIME_ENABLE_RETRIES",
            .help = "remote: try again when the network failed"),
    TN_STRING("remote_runtime_class", SANDBOX, remote_runtime_class, .flags = NULLABLE,
              .env = "SANDBOX_REMOTE_RUNTIME_CLASS", .help = "remote: sysbox or gvisor"),
    TN_DOUBLE("remote_runtime_resource_factor", SANDBOX, remote_runtime_resource_factor,
              .fallback = "1", .env = "SANDBOX_REMOTE_RUNTIME_RESOURCE_FACTOR", .min = 0,
              .max = 1e6, .help = "remote: 1, 2, 4 or 8 times the usual resources"),
    TN_BOOL("enable_auto_lint", SANDBOX, enable_auto_lint, .env = "SANDBOX_ENABLE_AUTO_LINT",
            .help = "sets ENABLE_AUTO_LINT inside"),
    TN_BOOL("use_host_network", SANDBOX, use_host_network, .env = "SANDBOX_USE_HOST_NETWORK",
            .help = "no network of its own"),
    TN_STRINGS("additional_networks", SANDBOX, additional_networks,
               .env = "SANDBOX_ADDITIONAL_NETWORKS", .help = "docker: networks to join as well"),
    TN_STRING("runtime_binding_address", SANDBOX, runtime_binding_address, .fallback = "127.0.0.1",
              .env = "SANDBOX_RUNTIME_BINDING_ADDRESS",
              .help = "docker: address that ports are published on"),
    TN_STRINGS("runtime_extra_build_args", SANDBOX, runtime_extra_build_args, .flags = NULLABLE,
               .env = "SANDBOX_RUNTIME_EXTRA_BUILD_ARGS",
               .help = "tendon build: --build-arg, --platform, --network, --add-host, --no-cache"),
    TN_BOOL("initialize_plugins", SANDBOX, initialize_plugins, .fallback = "true",
            .env = "SANDBOX_INITIALIZE_PLUGINS", .help = "ask the hand for plugins"),
    TN_BOOL("force_rebuild_runtime", SANDBOX, force_rebuild_runtime,
            .env = "SANDBOX_FORCE_REBUILD_RUNTIME", .help = "build images anew"),
    TN_STRING("runtime_extra_deps", SANDBOX, runtime_extra_deps, .flags = NULLABLE,
              .env = "SANDBOX_RUNTIME_EXTRA_DEPS", .help = "commands that add to a built image"),
    TN_JSON("runtime_startup_env_vars", SANDBOX, runtime_startup_env_vars,
            .flags = TN_FIELD_MAP | TN_FIELD_SECRET, .fallback = "{}",
            .env = "SANDBOX_RUNTIME_STARTUP_ENV_VARS", .help = "variables to set inside"),
    TN_STRING("browsergym_eval_env", SANDBOX, browsergym_eval_env, .flags = NULLABLE,
              .env = "SANDBOX_BROWSERGYM_EVAL_ENV", .help = "evaluation task of the browser"),
    TN_STRING("platform", SANDBOX, platform, .flags = NULLABLE, .env = "SANDBOX_PLATFORM",
              .help = "platform of images, such as linux/arm64"),
    TN_DOUBLE(
        "close_delay", SANDBOX, close_delay, .fallback = "3600", .env = "SANDBOX_CLOSE_DELAY",
        .min = 0, .max = 1e8,
        .help =
            "seconds before an idle conversation closes its sandbox; no effect here: see --lease"),
    TN_BOOL("enable_gpu", SANDBOX, enable_gpu, .env = "SANDBOX_ENABLE_GPU",
            .help = "pass GPUs through"),
    TN_STRING("cuda_visible_devices", SANDBOX, cuda_visible_devices, .flags = NULLABLE,
              .env = "SANDBOX_CUDA_VISIBLE_DEVICES", .help = "which GPUs [all]"),
    TN_JSON("docker_runtime_kwargs", SANDBOX, docker_runtime_kwargs,
            .flags = NULLABLE | TN_FIELD_MAP, .env = "SANDBOX_DOCKER_RUNTIME_KWARGS",
            .help = "docker: further arguments for the container"),
    TN_STRING(
        "selected_repo", SANDBOX, selected_repo, .flags = NULLABLE, .env = "SANDBOX_SELECTED_REPO",
        .help = "repository that sessions of the library clone if they name none, OWNER/NAME"),
    TN_STRINGS(
        "trusted_dirs", SANDBOX, trusted_dirs, .env = "SANDBOX_TRUSTED_DIRS",
        .help =
            "directories that OpenHands works in without asking; no effect here: nobody is asked"),
    TN_OPT_INT("vscode_port", SANDBOX, vscode_port, .flags = NULLABLE, .env = "SANDBOX_VSCODE_PORT",
               .min = 1, .max = 65535, .help = "port of the editor [chosen]"),
    TN_STRING("volumes", SANDBOX, volumes, .flags = NULLABLE, .env = "SANDBOX_VOLUMES",
              .help =
                  "HOST:INSIDE[:MODE], several with commas; one at /workspace is the workspace"),
};
const struct tn_fields tn_config_sandbox_fields = TN_FIELDS(sandbox_rows);

#define KUBERNETES struct tn_config_kubernetes
static const struct tn_field kubernetes_rows[] = {
    TN_STRING("namespace", KUBERNETES, namespace, .fallback = "default",
              .env = "KUBERNETES_NAMESPACE", .help = "namespace of everything made"),
    TN_STRING("ingress_domain", KUBERNETES, ingress_domain, .fallback = "localhost",
              .env = "KUBERNETES_INGRESS_DOMAIN", .help = "domain below which editors appear"),
    TN_STRING("pvc_storage_size", KUBERNETES, pvc_storage_size, .fallback = "2Gi",
              .env = "KUBERNETES_PVC_STORAGE_SIZE", .help = "size of a workspace"),
    TN_STRING("pvc_storage_class", KUBERNETES, pvc_storage_class, .flags = NULLABLE,
              .env = "KUBERNETES_PVC_STORAGE_CLASS", .help = "storage class of workspaces"),
    TN_STRING("resource_cpu_request", KUBERNETES, resource_cpu_request, .fallback = "1",
              .env = "KUBERNETES_RESOURCE_CPU_REQUEST", .help = "processors requested"),
    TN_STRING("resource_memory_request", KUBERNETES, resource_memory_request, .fallback = "1Gi",
              .env = "KUBERNETES_RESOURCE_MEMORY_REQUEST", .help = "memory requested"),
    TN_STRING("resource_memory_limit", KUBERNETES, resource_memory_limit, .fallback = "2Gi",
              .env = "KUBERNETES_RESOURCE_MEMORY_LIMIT", .help = "memory at most"),
    TN_STRING("image_pull_secret", KUBERNETES, image_pull_secret, .flags = NULLABLE,
              .env = "KUBERNETES_IMAGE_PULL_SECRET", .help = "name of the secret for pulls"),
    TN_STRING("ingress_tls_secret", KUBERNETES, ingress_tls_secret, .flags = NULLABLE,
              .env = "KUBERNETES_INGRESS_TLS_SECRET", .help = "name of the secret for TLS"),
    TN_STRING("node_selector_key", KUBERNETES, node_selector_key, .flags = NULLABLE,
              .env = "KUBERNETES_NODE_SELECTOR_KEY", .help = "label that nodes must have"),
    TN_STRING("node_selector_val", KUBERNETES, node_selector_val, .flags = NULLABLE,
              .env = "KUBERNETES_NODE_SELECTOR_VAL", .help = "value of that label"),
    TN_STRING("tolerations_yaml", KUBERNETES, tolerations_yaml, .flags = NULLABLE,
              .env = "KUBERNETES_TOLERATIONS_YAML", .help = "tolerations of the pod, as YAML"),
    TN_BOOL("privileged", KUBERNETES, privileged, .env = "KUBERNETES_PRIVILEGED",
            .help = "privileged pods"),
};
const struct tn_fields tn_config_kubernetes_fields = TN_FIELDS(kubernetes_rows);

#define SECURITY struct tn_config_security
static const struct tn_field security_rows[] = {
    TN_BOOL("confirmation_mode", SECURITY, confirmation_mode, .env = "SECURITY_CONFIRMATION_MODE",
            .help = "ask before risky actions; no effect here: only who drives the agent can ask"),
    TN_STRING("security_analyzer", SECURITY, security_analyzer, .flags = NULLABLE,
              .env = "SECURITY_SECURITY_ANALYZER",
              .help = "llm, invariant or grayswan; no effect here: there is none yet"),
};
const struct tn_fields tn_config_security_fields = TN_FIELDS(security_rows);

#define MCP struct tn_config_mcp
static const struct tn_field mcp_rows[] = {
    TN_JSON("sse_servers", MCP, sse_servers, .flags = NULLABLE | TN_FIELD_LIST,
            .env = "MCP_SSE_SERVERS", .help = "URLs, or objects of url and api_key"),
    TN_JSON("shttp_servers", MCP, shttp_servers, .flags = NULLABLE | TN_FIELD_LIST,
            .env = "MCP_SHTTP_SERVERS", .help = "URLs, or objects of url, api_key and timeout"),
    TN_JSON("stdio_servers", MCP, stdio_servers, .flags = NULLABLE | TN_FIELD_LIST,
            .env = "MCP_STDIO_SERVERS", .help = "objects of name, command, args and env"),
};
const struct tn_fields tn_config_mcp_fields = TN_FIELDS(mcp_rows);
