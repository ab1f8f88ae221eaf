#include "runtime/jail/image-manifest.h"

#include <ctype.h>

#define DIGEST_CHARS (2 * TN_SHA256_BYTES)
#define LAYERS_MAX 127
#define INDEX_DEPTH 4
#define LINK_HOPS 4

/* --- finding -------------------------------------------------------------------------------- */

static const struct jail_paper *find(const struct jail_papers *papers, const char *name)
{
    for (size_t i = 0; i < papers->count; i++)
        if (strcmp(papers->items[i].name, name) == 0)
            return &papers->items[i];
    return NULL;
}

/* The parsed paper, which the caller frees; NULL with err. */
static struct tn_json *parse(const struct jail_papers *papers, const char *name,
                             struct tn_error *err)
{
    const struct jail_paper *paper = find(papers, name);
    struct tn_json *tree = NULL;

    if (!paper || paper->link) {
        tn_fail(err, TN_E_INVALID, "the image has no %s", name);
        return NULL;
    }
    if (tn_json_parse(paper->text, paper->length, &tree, err) < 0) {
        tn_error_context(err, "%s in the image", name);
        return NULL;
    }
    if (!tree)
        tn_fail(err, TN_E_INVALID, "%s in the image is empty", name);
    return tree;
}

static bool is_digest(const char *text)
{
    size_t n = 0;

    while (isdigit((unsigned char)text[n]) || (text[n] >= 'a' && text[n] <= 'f'))
        n++;
    return n == DIGEST_CHARS && text[n] == '\0';
}

/* "sha256:HEX" -> HEX; NULL for anything else. */
static const char *digest_of(const char *text)
{
    if (!text || strncmp(text, "sha256:", 7) != 0 || !is_digest(text + 7))
        return NULL;
    return text + 7;
}

static char *blob_name(const char *digest, struct tn_error *err)
{
    const char *hex = digest_of(digest);

    if (hex)
        return tn_asprintf("blobs/sha256/%s", hex);
    tn_fail(err, TN_E_INVALID, "the image names a part by %s, which is no SHA-256 digest",
            digest ? digest : "nothing");
    return NULL;
}

/* Follows "ID/layer.tar -> ../OTHER/layer.tar", which older savers write. */
static char *follow_links(const struct jail_papers *papers, const char *name)
{
    char *at = tn_strdup(name);

    for (int hop = 0; hop < LINK_HOPS; hop++) {
        const struct jail_paper *paper = find(papers, at);
        if (!paper || !paper->link)
            break;
        const char *target = paper->text;
        char *slash = strrchr(at, '/');
        if (slash && strncmp(target, "../", 3) == 0) {
            target += 3;
            *slash = '\0';
            slash = strrchr(at, '/');
        }
        char *next =
            slash ? tn_asprintf("%.*s/%s", (int)(slash - at), at, target) : tn_strdup(target);
        free(at);
        at = next;
    }
    return at;
}

/* --- settings ------------------------------------------------------------------------------- */

static const char *our_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "unknown";
#endif
}

static char *text_or_null(const struct tn_json *object, const char *key)
{
    const char *text = tn_json_get_str(object, key, NULL);
    return text && *text ? tn_strdup(text) : NULL;
}

static int read_config(const struct tn_json *config, struct jail_manifest *m, struct tn_error *err)
{
    const char *arch = tn_json_get_str(config, "architecture", NULL);
    const struct tn_json *settings = tn_json_get(config, "config");
    const struct tn_json *env = tn_json_get(settings, "Env");
    const struct tn_json *ids = tn_json_get(tn_json_get(config, "rootfs"), "diff_ids");

    if (arch && *arch && strcmp(arch, our_architecture()) != 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "the image is for %s machines, this one is %s", arch,
                       our_architecture());
    if (tn_json_count(ids) != m->count)
        return tn_fail(err, TN_E_INVALID, "the image has %zu layers but digests for %zu", m->count,
                       tn_json_count(ids));
    for (size_t i = 0; i < m->count; i++) {
        const char *hex = digest_of(tn_json_str(tn_json_at(ids, i), NULL));
        if (!hex)
            return tn_fail(err, TN_E_INVALID, "the image gives no SHA-256 digest of layer %zu", i);
        m->layers[i].digest = tn_strdup(hex);
    }
    m->workdir = text_or_null(settings, "WorkingDir");
    m->user = text_or_null(settings, "User");
    size_t count = tn_json_count(env);
    m->env.items = tn_calloc(count + 1, sizeof *m->env.items);
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const char *text = tn_json_str(tn_json_at(env, i), &length);
        if (text && strlen(text) == length && strchr(text, '='))
            m->env.items[m->env.count++] = tn_strdup(text);
    }
    return 0;
}

/* --- layers --------------------------------------------------------------------------------- */

static int room_for_layers(struct jail_manifest *m, size_t count, struct tn_error *err)
{
    if (count == 0 || count > LAYERS_MAX)
        return tn_fail(err, TN_E_INVALID, "the image has %zu layers; 1 to %d are possible", count,
                       LAYERS_MAX);
    m->layers = tn_calloc(count, sizeof *m->layers);
    m->count = count;
    return 0;
}

/* manifest.json of `docker save`. */
static int read_docker(const struct jail_papers *papers, struct jail_manifest *m,
                       struct tn_error *err)
{
    tn_autojson struct tn_json *list = parse(papers, "manifest.json", err);

    if (!list)
        return -1;
    if (tn_json_count(list) != 1)
        return tn_fail(err, TN_E_INVALID, "the file holds %zu images; save one alone",
                       tn_json_count(list));
    const struct tn_json *image = tn_json_at(list, 0);
    const struct tn_json *layers = tn_json_get(image, "Layers");
    if (room_for_layers(m, tn_json_count(layers), err) < 0)
        return -1;
    for (size_t i = 0; i < m->count; i++) {
        const char *name = tn_json_str(tn_json_at(layers, i), NULL);
        if (!name)
            return tn_fail(err, TN_E_INVALID, "layer %zu of the image has no name", i);
        m->layers[i].file = follow_links(papers, name);
    }
    tn_autojson struct tn_json *config =
        parse(papers, tn_json_get_str(image, "Config", "configuration"), err);
    return config ? read_config(config, m, err) : -1;
}

/* The manifest of an index that is for this machine; NULL when there is none. */
static const struct tn_json *pick(const struct tn_json *manifests)
{
    for (size_t i = 0; i < tn_json_count(manifests); i++) {
        const struct tn_json *platform = tn_json_get(tn_json_at(manifests, i), "platform");
        const char *arch = tn_json_get_str(platform, "architecture", our_architecture());
        if (strcmp(arch, our_architecture()) == 0)
            return tn_json_at(manifests, i);
    }
    return NULL;
}

/* index.json, perhaps through further indexes, to a manifest, which the caller frees. */
static struct tn_json *find_oci_manifest(const struct jail_papers *papers, struct tn_error *err)
{
    tn_autofree char *name = tn_strdup("index.json");

    for (int depth = 0; depth < INDEX_DEPTH; depth++) {
        struct tn_json *tree = parse(papers, name, err);
        if (!tree || tn_json_has(tree, "layers"))
            return tree;
        const struct tn_json *chosen = pick(tn_json_get(tree, "manifests"));
        free(name);
        name = chosen ? blob_name(tn_json_get_str(chosen, "digest", NULL), err) : NULL;
        tn_json_free(tree);
        if (!chosen)
            tn_fail(err, TN_E_UNSUPPORTED, "the file holds no image for %s machines",
                    our_architecture());
        if (!name)
            return NULL;
    }
    tn_fail(err, TN_E_INVALID, "the image is an index of indexes");
    return NULL;
}

static int read_oci(const struct jail_papers *papers, struct jail_manifest *m, struct tn_error *err)
{
    tn_autojson struct tn_json *manifest = find_oci_manifest(papers, err);
    const struct tn_json *layers = tn_json_get(manifest, "layers");

    if (!manifest || room_for_layers(m, tn_json_count(layers), err) < 0)
        return -1;
    for (size_t i = 0; i < m->count; i++) {
        m->layers[i].file = blob_name(tn_json_get_str(tn_json_at(layers, i), "digest", NULL), err);
        if (!m->layers[i].file)
            return -1;
    }
    tn_autofree char *name =
        blob_name(tn_json_get_str(tn_json_get(manifest, "config"), "digest", NULL), err);
    tn_autojson struct tn_json *config = name ? parse(papers, name, err) : NULL;
    return config ? read_config(config, m, err) : -1;
}

int jail_manifest_read(const struct jail_papers *papers, struct jail_manifest *out,
                       struct tn_error *err)
{
    if (find(papers, "manifest.json"))
        return read_docker(papers, out, err) < 0 ? -1 : 1;
    if (find(papers, "index.json"))
        return read_oci(papers, out, err) < 0 ? -1 : 1;
    return 0;
}

void jail_manifest_done(struct jail_manifest *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->layers[i].file);
        free(m->layers[i].digest);
    }
    free(m->layers);
    for (size_t i = 0; i < m->env.count; i++)
        free(m->env.items[i]);
    free(m->env.items);
    free(m->workdir);
    free(m->user);
    *m = (struct jail_manifest){0};
}
