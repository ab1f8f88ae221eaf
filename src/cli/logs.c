#include "base/clock.h"
#include "base/fs.h"
#include "cli/clean.h"
#include "cli/verb.h"

struct logs_options {
    bool follow;
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_BOOL("follow", struct logs_options, follow, .flag = "--follow", .letter = 'f',
            .help = "go on with what comes, until ctrl-C"),
    TN_STRING("sandbox", struct logs_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "id, start of the id, or name [the only one]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct log {
    struct tn_buf line; /* with --json */
    bool json;
    bool terminal; /* standard output is one */
    struct clean_stream clean;
    struct tn_error err;
};

static int print_line(struct log *log)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(8 << 20);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "line");
    tn_jw_strn(&w, tn_buf_str(&log->line), log->line.len);
    tn_jw_object_end(&w);
    tn_buf_putc(&json, '\n');
    tn_buf_reset(&log->line);
    return tn_fs_write(STDOUT_FILENO, tn_buf_str(&json), json.len, &log->err);
}

static int print_bytes(const void *bytes, size_t n, void *ctx)
{
    struct log *log = ctx;

    if (log->terminal)
        return clean_stream_write(&log->clean, STDOUT_FILENO, bytes, n, &log->err);
    if (!log->json)
        return tn_fs_write(STDOUT_FILENO, bytes, n, &log->err);
    for (const char *c = bytes; n > 0; c++, n--) {
        if ((*c == '\n' || tn_buf_putc(&log->line, *c) < 0) && print_line(log) < 0)
            return -1;
    }
    return 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct logs_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    struct log log = {.line = TN_BUF_INIT(1 << 20),
                      .json = cli->json,
                      .terminal = !cli->json && isatty(STDOUT_FILENO)};

    if (!sb)
        return -1;
    int64_t deadline = options->follow ? TN_NEVER : cli_stop_deadline(cli);
    int status = tn_sandbox_logs(sb, options->follow, print_bytes, &log, deadline, err);
    if (status == 0 && log.line.len)
        print_line(&log);
    tn_buf_done(&log.line);
    if (log.err.code) {
        *err = log.err;
        return tn_error_context(err, "standard output");
    }
    return status;
}

const struct verb verb_logs = {
    .name = "logs",
    .group = VERB_LOOK,
    .summary = "print what the hand and its sandbox printed",
    .options = &options_table,
    .options_size = sizeof(struct logs_options),
    .run = run,
};
