/* The JSON of clients of Daytona, E2B and Runloop, where it becomes something of ours: rules of a
 * network, metadata, a script, the record of a tunnel.  What is made of it is JSON again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/daytona/daytona.h"
#include "service/e2b/e2b.h"
#include "service/runloop/runloop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_json(const char *text, size_t n)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse(text, n, &tree, NULL) < 0)
        abort();
}

static void check_daytona(const struct tn_json *wish)
{
    tn_autojson struct tn_json *metadata = NULL;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);
    struct daytona_settings settings, again;

    daytona_settings_of(wish, &settings);
    if (daytona_metadata(tn_json_get(wish, "labels"), &settings, &metadata, NULL) == 0) {
        daytona_settings_of(metadata, &again);
        if (again.public != settings.public || again.archive != settings.archive ||
            again.remove != settings.remove || !again.target != !settings.target)
            abort();
        daytona_put_labels(&w, metadata);
        must_be_json(tn_buf_str(&text), text.len);
    }
}

static void check_e2b(const struct tn_json *wish)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (e2b_put_network(&w, wish, tn_json_get(wish, "network"), NULL))
        return;
    tn_jw_object_end(&w);
    must_be_json(tn_buf_str(&text), text.len);
}

static void check_runloop(const struct tn_json *wish)
{
    const struct tn_json *words = tn_json_get(wish, "metadata");
    tn_autofree char *script = runloop_script(tn_json_get(wish, "launch_commands"));
    tn_autofree char *tunnel = runloop_new_tunnel(tn_json_get(wish, "tunnel"));

    if (strncmp(script, "set -e\n", 7) != 0)
        abort();
    must_be_json(tunnel, strlen(tunnel));
    if (runloop_check_words(words, NULL) == 0) {
        tn_autojson struct tn_json *kept =
            runloop_metadata(words, tn_json_get(wish, "record"), "tunnel", tunnel, NULL);
        if (kept && runloop_check_words(kept, NULL) == 0)
            abort(); /* the record is a name that no client has */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autojson struct tn_json *wish = NULL;

    if (tn_json_parse((const char *)data, size, &wish, NULL) == 0) {
        check_daytona(wish);
        check_e2b(wish);
        check_runloop(wish);
    }
    return 0;
}
