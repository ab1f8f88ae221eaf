/* Images of registries, built at the vendor: a template, or a blueprint, of one image.
 *
 * Its name is made of what it is built from and of the mark of this state, so that the vendor
 * itself knows which there are: another process finds it, and so does one that comes after a kill
 * in the middle of a build, which goes on without us. */
#include <errno.h>

#include "base/again.h"
#include "base/file-lock.h"
#include "base/sha256.h"
#include "runtime/cloud/cloud.h"

#define REGISTRY "docker://" /* no vendor has such names */
#define SEPARATOR " | "      /* between the lines of a log */
enum { ORIGIN_LETTERS = 16, SAID_MAX = 240, REASON_MAX = 100 };

/* --- for vendors ------------------------------------------------------------------------------ */

void cloud_build_done(struct cloud_build *b)
{
    free(b->said);
    free(b->reason);
    *b = (struct cloud_build){0};
}

int cloud_build_name(const struct cloud *c, const char *template, const char *id,
                     struct cloud_build *b, struct tn_error *err)
{
    if (!cloud_is_id(template) || !cloud_is_id(id))
        return tn_fail(err, TN_E_PEER, "%s tells of a build without a usable id", c->line.who);
    snprintf(b->template, sizeof b->template, "%s", template);
    snprintf(b->id, sizeof b->id, "%s", id);
    b->state = CLOUD_BUILD_BUSY;
    return 0;
}

void cloud_build_say(const struct cloud *c, struct cloud_build *b, const struct tn_json *entries)
{
    for (size_t i = 0; i < tn_json_count(entries); i++) {
        /* Each by itself: half of a key would be known no more. */
        tn_autofree char *text =
            cloud_words(&c->line, tn_json_get_str(tn_json_at(entries, i), "message", ""));
        if (!*text)
            continue;
        tn_autofree char *all =
            tn_asprintf("%s%s%s", b->said ? b->said : "", b->said ? SEPARATOR : "", text);
        size_t n = strlen(all);
        const char *tail = n > SAID_MAX ? all + n - SAID_MAX : all,
                   *whole = tail > all ? strstr(tail, SEPARATOR) : NULL;
        free(b->said);
        b->said = tn_strdup(whole ? whole + sizeof SEPARATOR - 1 : tail);
    }
}

void cloud_build_fail(const struct cloud *c, struct cloud_build *b, const char *reason)
{
    b->state = CLOUD_BUILD_FAILED;
    free(b->reason);
    b->reason = reason && *reason ? cloud_words(&c->line, reason) : NULL;
}

/* --- the policy ------------------------------------------------------------------------------- */

/* What it is called there. */
static int read_origin(const struct cloud *c, const char *image, char name[CLOUD_CACHE_NAME],
                       struct tn_error *err)
{
    tn_autofree char *made_of = tn_asprintf("%s\n%s", c->line.url, image);
    char digest[CLOUD_DIGEST];
    struct tn_sha256 hash;

    if (c->unmarked)
        return tn_fail(err, TN_E_UNSUPPORTED, "E2B_DEBUG: nobody builds images here");
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, made_of, strlen(made_of));
    tn_sha256_end_hex(&hash, digest);
    snprintf(name, CLOUD_CACHE_NAME, "tendon-image-%s-%.*s", c->mark, ORIGIN_LETTERS, digest);
    return 0;
}

/* One whose answer was lost is looked for. */
static int begin(const struct cloud *c, const char *name, const char *image, struct cloud_build *b,
                 int64_t deadline, struct tn_error *err)
{
    const struct cloud_works *works = c->vendor->works;
    struct tn_error why = {0};

    if (works->begin(c, name, image, b, deadline, &why) == 0)
        return 0;
    for (int i = 0, ms = 0; i < CLOUD_LOST_LOOKS && cloud_is_lost(&why) &&
                            tn_back_off(&ms, 0, b->cancel, deadline, NULL) == 0;
         i++)
        if (works->seek(c, name, b, deadline, NULL) == 0 && b->state != CLOUD_BUILD_NONE)
            return 0;
    return cloud_fail(err, &why);
}

static int await(const struct cloud *c, struct cloud_build *b, int64_t deadline,
                 struct tn_error *err)
{
    struct tn_error why = {0};

    for (int ms = 0; b->state == CLOUD_BUILD_BUSY;)
        if (tn_back_off(&ms, 0, b->cancel, deadline, &why) < 0 ||
            c->vendor->works->look(c, b, deadline, &why) < 0) {
            if (why.code == TN_E_TIMEOUT)
                tn_error_context(&why, "%s is still building it: a later try waits for the same",
                                 c->line.who);
            return cloud_fail(err, &why);
        }
    if (b->state == CLOUD_BUILD_READY)
        return 0;
    tn_autofree char *all =
        tn_asprintf("%.*s%s%s", REASON_MAX, b->reason ? b->reason : "",
                    b->reason && *b->reason && b->said ? ": " : "", b->said ? b->said : "");
    return tn_fail(err, TN_E_NOT_FOUND, "%s cannot build it: %s", c->line.who,
                   *all ? all : "it gives no reason");
}

/* The one that is there, or begun now.  Vendors end the build of one name when another of it
 * begins, so those of this state look one after the other. */
static int find(const struct cloud *c, const char *name, const char *image, struct cloud_build *b,
                int64_t deadline, struct tn_error *err)
{
    tn_autofd int notes = cloud_open_notes(c);

    if (notes < 0)
        return tn_fail_errno(err, errno, "%s/clouds", c->host->state);
    int held = tn_file_lock(notes, deadline, err);
    if (held < 0)
        return -1;
    int result = c->vendor->works->seek(c, name, b, deadline, err);
    if (result == 0 && b->state == CLOUD_BUILD_NONE)
        result = begin(c, name, image, b, deadline, err);
    tn_file_unlock(notes, held);
    return result;
}

int cloud_have_image(const struct cloud *c, const struct tn_subject *s, char name[CLOUD_CACHE_NAME],
                     int64_t deadline, struct tn_error *err)
{
    const char *wanted = s->spec->image ? s->spec->image : c->standard;
    TN_CLEANUP(cloud_build_done) struct cloud_build b = {.cancel = s->cancel};

    *name = '\0';
    if (!wanted || !c->vendor->works || strncmp(wanted, REGISTRY, sizeof REGISTRY - 1) != 0)
        return 0;
    const char *image = wanted + sizeof REGISTRY - 1;
    if (!tn_spec_may_be_image(image))
        return tn_fail(err, TN_E_INVALID, "image: what follows " REGISTRY " is no name of one");
    if (read_origin(c, image, name, err) == 0 && find(c, name, image, &b, deadline, err) == 0 &&
        await(c, &b, deadline, err) == 0)
        return 0;
    return tn_error_context(err, "%.120s", wanted);
}
