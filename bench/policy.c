/* policy ROUNDS RULES CASES...: how long a verdict takes.  Judges every case of these files so many
 * times by the rules that ship and further ones, RULES in all, and prints nanoseconds, one a line.
 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "security/policy/cases.h"
#include "security/policy/policy.h"

/* Rules as an operator writes them, about things of his own. */
static void put_rules(struct tn_buf *out, size_t count)
{
    static const char *const forms[] = {
        "program = [\"deploy-%zu\", \"release-%zu\"]\nargs = [\"--target|-t\", \"prod*\"]\n",
        "write = [\"/srv/app-%zu/**\", \"config/live-%zu.toml\"]\n",
        "url = [\"https://*.internal-%zu.example.com/api/*\", \"http://10.0.%zu.1:8080\"]\n",
        "action = [\"write\", \"edit\"]\ncontent = [\"internal-%zu.example.com\", \"*LICENSE-%zu*\"]\n",
        "read = [\"~/.tool-%zu/**\", \"**/*.key%zu\"]\nunless = { program = \"ls\" }\n",
    };

    for (size_t i = 0; i < count; i++) {
        tn_buf_printf(out, "[[rule]]\nname = \"own-%zu\"\nrisk = \"medium\"\ntext = \"rule\"\n", i);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        tn_buf_printf(out, forms[i % TN_COUNT(forms)], i, i);
#pragma GCC diagnostic pop
    }
}

static int judge(const struct tn_policy_case *c, void *policy, struct tn_error *err)
{
    tn_autoverdict struct tn_verdict v = {0};
    int64_t start = tn_now();

    if (tn_policy_judge(policy, &c->given, TN_NEVER, &v, err))
        return -1;
    printf("%lld\n", (long long)(tn_now() - start));
    return 0;
}

static int measure(struct tn_policy *p, long rounds, char *const *files, struct tn_error *err)
{
    for (; *files; files++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
        if (tn_fs_read(AT_FDCWD, *files, &text, err))
            return -1;
        for (long i = 0; i < rounds; i++) {
            if (tn_policy_cases(*files, tn_buf_str(&text), text.len, judge, p, err))
                return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    tn_autobuf struct tn_buf own = TN_BUF_INIT(1 << 20);
    struct tn_error err = {0};
    tn_autopolicy struct tn_policy *p = argc > 3 ? tn_policy_new(true, NULL, 0, &err) : NULL;
    size_t wanted = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;

    if (argc <= 3) {
        fputs("usage: policy ROUNDS RULES CASES...\n", stderr);
        return 2;
    }
    if (p)
        put_rules(&own, wanted > tn_policy_count(p) ? wanted - tn_policy_count(p) : 0);
    if (!p || tn_policy_add(p, "own.toml", tn_buf_str(&own), own.len, &err) ||
        measure(p, strtol(argv[1], NULL, 10), argv + 3, &err)) {
        fprintf(stderr, "policy: %s\n", err.text);
        return 1;
    }
    return 0;
}
