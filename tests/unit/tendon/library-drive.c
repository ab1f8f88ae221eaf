/* Drives libtendon for tests: one sandbox, one line in, one line out.
 *
 *     library-drive SPEC      a new sandbox, which ends with this program; prints its id
 *
 *     execute ACTION          tendon_execute
 *     session ACTION          tendon_session_act, in one session for all; its tokens come with
 *     open OPTIONS            ...which are those of tendon_session_open
 *
 * Answers are "ok JSON" or "no CODE TEXT". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tendon/tendon.h>

static void answer(char *json, const struct tendon_error *err)
{
    if (json)
        printf("ok %s\n", json);
    else
        printf("no %s %s\n", err->code, err->text);
    fflush(stdout);
    free(json);
}

static int fail(const char *what, const struct tendon_error *err)
{
    fprintf(stderr, "library-drive: %s: %s\n", what, err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct tendon_error err = {0};
    struct tendon_session *session = NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    struct tendon *t = tendon_open(NULL, NULL, &err);
    if (!t)
        return fail("open", &err);
    struct tendon_sandbox *sb = tendon_create(t, argc > 1 ? argv[1] : NULL, 60, &err);
    if (!sb)
        return fail("create", &err);
    printf("%s\n", tendon_id(sb));
    fflush(stdout);
    while ((n = getline(&line, &room, stdin)) > 0) {
        line[n - 1] = '\0';
        char *what = strchr(line, ' ');
        if (!what)
            return 2;
        *what++ = '\0';
        if (strcmp(line, "execute") == 0) {
            answer(tendon_execute(sb, what, &err), &err);
            continue;
        }
        if (!session &&
            !(session = tendon_session_open(sb, strcmp(line, "open") ? NULL : what, NULL, &err)))
            return fail("session", &err);
        answer(strcmp(line, "open") ? tendon_session_act(session, what, &err) : strdup("{}"), &err);
    }
    free(line);
    tendon_session_close(session);
    if (tendon_remove(sb, 60, &err) < 0)
        return fail("remove", &err);
    tendon_close(t);
    return 0;
}
