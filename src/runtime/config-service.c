/* The section of `tendon serve`. */
#include "runtime/config-sections.h"

#define NULLABLE TN_FIELD_NULLABLE
#define SERVICE struct tn_service_options
#define YEARS 1e9 /* seconds; what nobody means as a limit */

static const struct tn_field service_rows[] = {
    TN_STRINGS("listen", SERVICE, listen, .fallback = "127.0.0.1:7171",
               .env = "TENDON_SERVICE_LISTEN",
               .help = "addresses: HOST:PORT, [V6]:PORT, unix:PATH, fd:N (a socket it inherits)"),
    TN_STRING("tls_cert", SERVICE, tls_cert, .flags = NULLABLE, .env = "TENDON_SERVICE_TLS_CERT",
              .help = "PEM file of the certificate and its chain; addresses with a port speak TLS"),
    TN_STRING("tls_key", SERVICE, tls_key, .flags = NULLABLE, .env = "TENDON_SERVICE_TLS_KEY",
              .help = "PEM file of its private key"),
    TN_BOOL("insecure", SERVICE, insecure, .env = "TENDON_SERVICE_INSECURE",
            .help = "listen beyond this machine without TLS: something else encrypts"),
    TN_STRING("url", SERVICE, url, .flags = NULLABLE, .env = "TENDON_SERVICE_URL",
              .help = "how clients reach it, https://NAME [follows from listen]"),
    TN_STRINGS("hosts", SERVICE, hosts, .env = "TENDON_SERVICE_HOSTS",
               .help = "further names that clients may reach it by"),
    TN_STRINGS("origins", SERVICE, origins, .env = "TENDON_SERVICE_ORIGINS",
               .help = "web pages of others that may call it: https://NAME"),
    TN_STRING("preview_domain", SERVICE, preview_domain, .fallback = "localhost",
              .env = "TENDON_SERVICE_PREVIEW_DOMAIN",
              .help = "ports of sandboxes are seen as PORT-ID.DOMAIN"),
    TN_BOOL("public_previews", SERVICE, public_previews, .env = "TENDON_SERVICE_PUBLIC_PREVIEWS",
            .help = "tenants may open the ports of a sandbox to everybody"),
    TN_STRING("tcp_ports", SERVICE, tcp_ports, .flags = NULLABLE, .env = "TENDON_SERVICE_TCP_PORTS",
              .help = "FIRST-LAST: ports of its address that tenants may lead to their sandboxes, "
                      "open to everybody [any, where it listens on this machine alone; else none]"),
    TN_BOOL("open_metrics", SERVICE, open_metrics, .env = "TENDON_SERVICE_OPEN_METRICS",
            .help = "/metrics needs no key"),
    TN_STRINGS("runtimes", SERVICE, runtimes, .env = "TENDON_SERVICE_RUNTIMES",
               .help =
                   "that tenants may choose [the configured one alone]; templates may name any"),
    TN_STRINGS("images", SERVICE, images, .env = "TENDON_SERVICE_IMAGES",
               .help =
                   "that tenants may name, as patterns such as docker.io/library/*, pulled with "
                   "this machine's logins [any, pulled without them]"),
    TN_BOOL("build_network", SERVICE, build_network, .env = "TENDON_SERVICE_BUILD_NETWORK",
            .help = "steps of /build have the engine's network, which no gate watches [none]"),
    TN_STRING("sandbox_memory", SERVICE, sandbox_memory, .flags = NULLABLE,
              .env = "TENDON_SERVICE_SANDBOX_MEMORY",
              .help = "the most that a tenant's sandbox may have; 0: any [the runtime's limit]"),
    TN_OPT_DOUBLE("sandbox_cpus", SERVICE, sandbox_cpus, .flags = NULLABLE,
                  .env = "TENDON_SERVICE_SANDBOX_CPUS", .min = 0, .max = 4096,
                  .help = "likewise processors"),
    TN_OPT_INT("sandbox_pids", SERVICE, sandbox_pids, .flags = NULLABLE,
               .env = "TENDON_SERVICE_SANDBOX_PIDS", .min = 0, .max = 4194304,
               .help = "likewise processes and threads"),
    TN_OPT_INT("sandbox_open_files", SERVICE, sandbox_open_files, .flags = NULLABLE,
               .env = "TENDON_SERVICE_SANDBOX_OPEN_FILES", .min = 0, .max = 1073741816,
               .help = "likewise open files of a process"),
    TN_STRING("sandbox_disk", SERVICE, sandbox_disk, .flags = NULLABLE, .fallback = "20g",
              .env = "TENDON_SERVICE_SANDBOX_DISK",
              .help = "what it may write; one that has written more is paused; 0: any"),
    TN_INT("max_sandboxes", SERVICE, max_sandboxes, .fallback = "1000",
           .env = "TENDON_SERVICE_MAX_SANDBOXES", .min = 0, .max = 1000000,
           .help = "that run at a time; 0: no limit"),
    TN_INT("max_secrets", SERVICE, max_secrets, .fallback = "100",
           .env = "TENDON_SERVICE_MAX_SECRETS", .min = 0, .max = 1000000,
           .help = "that a tenant may keep; 0: no limit"),
    TN_INT("max_tcp_ports", SERVICE, max_tcp_ports, .fallback = "8",
           .env = "TENDON_SERVICE_MAX_TCP_PORTS", .min = 0, .max = 65535,
           .help = "that a tenant may have at a time; 0: none"),
    TN_INT("max_starts", SERVICE, max_starts, .env = "TENDON_SERVICE_MAX_STARTS", .min = 0,
           .max = 10000, .help = "that start at a time, others wait in line; 0: by processors"),
    TN_DOUBLE("start_seconds", SERVICE, start_seconds, .fallback = "120",
              .env = "TENDON_SERVICE_START_SECONDS", .min = 0.001, .max = YEARS,
              .help = "for one to start, its time in line included"),
    TN_DOUBLE("idle_pause_seconds", SERVICE, idle_pause_seconds,
              .env = "TENDON_SERVICE_IDLE_PAUSE_SECONDS", .min = 0, .max = YEARS,
              .help = "unused for so long: paused; 0: never"),
    TN_DOUBLE("idle_stop_seconds", SERVICE, idle_stop_seconds,
              .env = "TENDON_SERVICE_IDLE_STOP_SECONDS", .min = 0, .max = YEARS,
              .help = "unused for so long: stopped; 0: never"),
    TN_DOUBLE("ttl_seconds", SERVICE, ttl_seconds, .env = "TENDON_SERVICE_TTL_SECONDS", .min = 0,
              .max = YEARS, .help = "deleted so long after its creation; 0: never"),
    TN_STRING("disk_reserve", SERVICE, disk_reserve, .fallback = "1g",
              .env = "TENDON_SERVICE_DISK_RESERVE",
              .help = "none starts with less than this left of the state directory's disk"),
    TN_STRING("memory_reserve", SERVICE, memory_reserve, .fallback = "128m",
              .env = "TENDON_SERVICE_MEMORY_RESERVE",
              .help = "none starts with less than this left of the machine's memory"),
    TN_STRING("request_memory", SERVICE, request_memory, .fallback = "512m",
              .env = "TENDON_SERVICE_REQUEST_MEMORY",
              .help = "that bodies and answers may take together; a tenant has half of it"),
    TN_BOOL("pause_old_sandboxes", SERVICE, pause_old_sandboxes, .fallback = "true",
            .env = "TENDON_SERVICE_PAUSE_OLD_SANDBOXES",
            .help = "at max_sandboxes: pause the tenant's own oldest, instead of refusing"),
    TN_BOOL("pause_others", SERVICE, pause_others, .env = "TENDON_SERVICE_PAUSE_OTHERS",
            .help = "and where it has none, the oldest of other tenants"),
    TN_BOOL("tools", SERVICE, tools, .env = "TENDON_SERVICE_TOOLS",
            .help = "tenants may call the tools of [mcp], with this service's keys; else only the "
                    "administrator"),
    TN_STRING("confirm_url", SERVICE, confirm_url, .flags = NULLABLE,
              .env = "TENDON_SERVICE_CONFIRM_URL",
              .help = "gets a POST for each action that waits for its confirmation"),
    TN_STRING("confirm_secret", SERVICE, confirm_secret, .flags = NULLABLE | TN_FIELD_SECRET,
              .env = "TENDON_SERVICE_CONFIRM_SECRET",
              .help =
                  "signs what confirm_url gets and what it answers, so that both know who it is"),
    TN_DOUBLE("drain_seconds", SERVICE, drain_seconds, .fallback = "10",
              .env = "TENDON_SERVICE_DRAIN_SECONDS", .min = 0, .max = 3600,
              .help = "for requests under way when it is asked to stop"),
    TN_BOOL("stop_sandboxes", SERVICE, stop_sandboxes, .env = "TENDON_SERVICE_STOP_SANDBOXES",
            .help = "when it is asked to stop, stop them too; else the next service has them"),
    TN_BOOL("resume_on_use", SERVICE, resume_on_use, .fallback = "true",
            .env = "TENDON_SERVICE_RESUME_ON_USE", .help = "using a paused sandbox wakes it"),
};
const struct tn_fields tn_config_service_fields = TN_FIELDS(service_rows);

#define POOL struct tn_config_pool
static const struct tn_field pool_rows[] = {
    TN_STRING("template", POOL, template, .flags = NULLABLE,
              .help = "the [template.NAME] that they are made of [a plain sandbox]"),
    TN_INT("target", POOL, target, .fallback = "1", .min = 0, .max = 10000,
           .help = "so many wait when nothing happens"),
    TN_INT("minimum", POOL, minimum, .min = 0, .max = 10000,
           .help = "below it, filling goes before other starts"),
    TN_INT("burst", POOL, burst, .min = 0, .max = 64,
           .help = "made at a time when it is low; 0: the usual number"),
};
const struct tn_fields tn_config_pool_fields = TN_FIELDS(pool_rows);

static int read_pool(const char *name, const struct tn_toml *table, struct tn_config_pool *pool,
                     struct tn_error *err)
{
    tn_fields_defaults(&tn_config_pool_fields, pool);
    if (tn_toml_type(table) != TN_TOML_TABLE)
        return tn_fail(err, TN_E_INVALID, "line %d: expected sections [pool.NAME], found %s",
                       tn_toml_line(table), tn_toml_type_name(table));
    if (tn_fields_refuse_unknown_toml(&tn_config_pool_fields, table, err) < 0 ||
        tn_fields_from_toml(&tn_config_pool_fields, pool, table, err) < 0)
        return tn_error_context(err, "[pool.%.60s]", name);
    if (pool->minimum > pool->target)
        return tn_fail(
            err, TN_E_INVALID, "line %d: [pool.%.60s]: minimum (%lld) is more than target (%lld)",
            tn_toml_line(table), name, (long long)pool->minimum, (long long)pool->target);
    return 0;
}

int tn_config_pools(const struct tn_config *c, tn_config_pool_fn fn, void *ctx,
                    struct tn_error *err)
{
    const struct tn_toml *pools = tn_toml_get(c->private->file, "pool");
    int result = 0;

    if (pools && tn_toml_type(pools) != TN_TOML_TABLE)
        return tn_fail(err, TN_E_INVALID, "line %d: pool is no section", tn_toml_line(pools));
    for (size_t i = 0, n = tn_toml_count(pools); i < n && result == 0; i++) {
        const char *name = tn_toml_key_at(pools, i, NULL);
        struct tn_config_pool pool = {0};
        result = read_pool(name, tn_toml_at(pools, i), &pool, err);
        if (result == 0 && fn)
            result = fn(name, &pool, ctx);
        tn_fields_done(&tn_config_pool_fields, &pool);
    }
    return result;
}
