#include "image/hand-image.h"

#include <elf.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/sha256.h"
#include "engine/tar.h"

#define OCI "application/vnd.oci.image."
#define INDEX_TYPE OCI "index.v1+json"
/* Not gzip: what that makes of the same bytes is another thing with another zlib. */
#define LAYER_TYPE OCI "layer.v1.tar"
#define GATE "tendon-gate-pod"
#define MADE 315532800 /* 1980, as good as any other moment, and the same for all */
#define MADE_TEXT "1980-01-01T00:00:00Z"
enum { HAND_MAX = 256 << 20, TEXT_MAX = 1 << 20, PARTS = 3 };
enum { LAYER, CONFIG, MANIFEST }; /* of an architecture */

void tn_hand_image_done(struct tn_hand_image *image)
{
    for (size_t i = 0; i < image->count; i++)
        tn_buf_done(&image->blobs[i].bytes);
    free(image->blobs);
}

/* --- programs --------------------------------------------------------------------------------- */

static const struct {
    uint16_t elf;
    const char *name;
} machines[] = {
    {EM_X86_64, "amd64"},
    {EM_AARCH64, "arm64"},
    {EM_RISCV, "riscv64"},
};

static bool is_static(const struct tn_buf *program, const Elf64_Ehdr *elf)
{
    for (size_t i = 0; i < elf->e_phnum; i++) {
        Elf64_Phdr part;
        if (elf->e_phoff > program->len || program->len - elf->e_phoff < (i + 1) * sizeof part)
            return false;
        memcpy(&part, program->data + elf->e_phoff + i * sizeof part, sizeof part);
        if (part.p_type == PT_INTERP)
            return false;
    }
    return true;
}

/* What an image calls the machine that a program is for, or NULL with err. */
static const char *architecture(const char *path, const struct tn_buf *program,
                                struct tn_error *err)
{
    Elf64_Ehdr elf = {0};

    if (program->len >= sizeof elf)
        memcpy(&elf, program->data, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_phentsize != sizeof(Elf64_Phdr)) {
        tn_fail(err, TN_E_INVALID, "%s is no program of a 64-bit Linux", path);
        return NULL;
    }
    if (!is_static(program, &elf)) {
        tn_fail(err, TN_E_INVALID,
                "%s needs libraries, which the image has not: take the static one of a release "
                "build",
                path);
        return NULL;
    }
    for (size_t i = 0; i < TN_COUNT(machines); i++)
        if (machines[i].elf == elf.e_machine)
            return machines[i].name;
    tn_fail(err, TN_E_UNSUPPORTED, "%s is for ELF machine %d, whose name is not known here", path,
            elf.e_machine);
    return NULL;
}

/* --- what an image is made of ----------------------------------------------------------------- */

static int seal(struct tn_blob *blob, const char *type, struct tn_error *err)
{
    struct tn_sha256 hash;

    if (!tn_buf_ok(&blob->bytes))
        return tn_fail(err, TN_E_TOO_LARGE, "the image does not fit into memory");
    blob->type = type;
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, blob->bytes.data, blob->bytes.len);
    char hex[2 * TN_SHA256_BYTES + 1];
    tn_sha256_end_hex(&hash, hex);
    snprintf(blob->digest, sizeof blob->digest, "sha256:%s", hex);
    snprintf(blob->path, sizeof blob->path, TN_BLOBS "%s", hex);
    return 0;
}

/* gate: may be empty. */
static int write_layer(struct tn_blob *layer, const struct tn_buf *hand, const struct tn_buf *gate,
                       struct tn_error *err)
{
    const struct tn_engine_file files[] = {{.name = "tendon-hand",
                                            .bytes = hand->data,
                                            .size = hand->len,
                                            .mode = 0755,
                                            .mtime = MADE},
                                           {.name = "tendon-gate",
                                            .bytes = gate->data,
                                            .size = gate->len,
                                            .mode = 0755,
                                            .mtime = MADE}};
    struct tn_tar tar;
    char piece[64 << 10];
    ssize_t n = 0;

    if (tn_tar_init(&tar, files, gate->len ? 2 : 1, err) < 0)
        return -1;
    tn_buf_init(&layer->bytes, (size_t)tn_tar_length(&tar));
    while ((n = tn_tar_read(piece, sizeof piece, &tar, err)) > 0)
        tn_buf_add(&layer->bytes, piece, (size_t)n);
    return n < 0 ? -1 : seal(layer, LAYER_TYPE, err);
}

static int write_config(struct tn_blob *config, const char *machine, const char *layer,
                        struct tn_error *err)
{
    tn_buf_init(&config->bytes, TEXT_MAX);
    tn_buf_printf(&config->bytes,
                  "{\"created\":\"" MADE_TEXT "\",\"architecture\":\"%s\",\"os\":\"linux\","
                  "\"config\":{\"Entrypoint\":[\"/tendon-hand\"],\"Labels\":{"
                  "\"org.opencontainers.image.title\":\"tendon-hand\","
                  "\"org.opencontainers.image.version\":\"" TN_VERSION "\"}},"
                  "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"]},"
                  "\"history\":[{\"created\":\"" MADE_TEXT "\",\"created_by\":\"tendon build\"}]}",
                  machine, layer);
    return seal(config, OCI "config.v1+json", err);
}

/* The members by which a blob is named in others; the object stays open. */
static void begin_descriptor(struct tn_jw *w, const struct tn_blob *blob)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "mediaType", blob->type);
    tn_jw_kstr(w, "digest", blob->digest);
    tn_jw_kint(w, "size", (int64_t)blob->bytes.len);
}

static struct tn_jw begin_document(struct tn_buf *out, const char *type)
{
    tn_buf_init(out, TEXT_MAX);
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kint(&w, "schemaVersion", 2);
    tn_jw_kstr(&w, "mediaType", type);
    return w;
}

static int write_manifest(struct tn_blob *parts, struct tn_error *err)
{
    struct tn_jw w = begin_document(&parts[MANIFEST].bytes, OCI "manifest.v1+json");

    tn_jw_key(&w, "config");
    begin_descriptor(&w, &parts[CONFIG]);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "layers");
    tn_jw_array(&w);
    begin_descriptor(&w, &parts[LAYER]);
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return seal(&parts[MANIFEST], OCI "manifest.v1+json", err);
}

static int write_index(struct tn_hand_image *image, struct tn_error *err)
{
    struct tn_blob *index = &image->blobs[image->count - 1];
    struct tn_jw w = begin_document(&index->bytes, INDEX_TYPE);

    tn_jw_key(&w, "manifests");
    tn_jw_array(&w);
    for (size_t i = MANIFEST; i + 1 < image->count; i += PARTS) {
        begin_descriptor(&w, &image->blobs[i]);
        tn_jw_key(&w, "platform");
        tn_jw_object(&w);
        tn_jw_kstr(&w, "architecture", image->blobs[i].architecture);
        tn_jw_kstr(&w, "os", "linux");
        tn_jw_object_end(&w);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return seal(index, INDEX_TYPE, err);
}

/* The gate of pods, where it lies beside the hand; it must be for the same machine. */
static int read_gate(const char *hand, const char *machine, struct tn_buf *gate,
                     struct tn_error *err)
{
    const char *slash = strrchr(hand, '/');
    tn_autofree char *path = tn_asprintf("%.*s" GATE, slash ? (int)(slash - hand) + 1 : 0, hand);

    if (access(path, F_OK) < 0)
        return 0;
    if (tn_fs_read(TN_FS_ANYWHERE, path, gate, err) < 0)
        return -1;
    const char *other = architecture(path, gate, err);
    if (!other)
        return -1;
    return strcmp(other, machine) == 0
               ? 0
               : tn_fail(err, TN_E_INVALID, "%s is for %s, the hand beside it for %s", path, other,
                         machine);
}

static int add_hand(struct tn_hand_image *image, const char *path, struct tn_blob *parts,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf program = TN_BUF_INIT(HAND_MAX), gate = TN_BUF_INIT(HAND_MAX);
    const char *machine = NULL;

    if (tn_fs_read(TN_FS_ANYWHERE, path, &program, err) < 0 ||
        !(machine = architecture(path, &program, err)) || read_gate(path, machine, &gate, err) < 0)
        return -1;
    for (const struct tn_blob *b = image->blobs; b < parts; b++)
        if (b->architecture == machine)
            return tn_fail(err, TN_E_INVALID, "%s: there is a hand for %s already", path, machine);
    parts[MANIFEST].architecture = machine;
    return write_layer(&parts[LAYER], &program, &gate, err) < 0 ||
                   write_config(&parts[CONFIG], machine, parts[LAYER].digest, err) < 0
               ? -1
               : write_manifest(parts, err);
}

int tn_hand_image_make(const struct tn_str_list *hands, struct tn_hand_image *out,
                       struct tn_error *err)
{
    out->count = PARTS * hands->count + 1;
    out->blobs = tn_calloc(out->count, sizeof *out->blobs);
    for (size_t i = 0; i < hands->count; i++)
        if (add_hand(out, hands->items[i], &out->blobs[PARTS * i], err) < 0)
            return -1;
    return write_index(out, err);
}

/* --- the file --------------------------------------------------------------------------------- */

/* What an OCI layout begins with: the index of indexes, which gives ours its name. */
static void put_layout_index(const struct tn_hand_image *image, const struct tn_reference *name,
                             struct tn_buf *out)
{
    tn_autobuf struct tn_buf full = TN_BUF_INIT(4096);
    struct tn_jw w = begin_document(out, INDEX_TYPE);

    tn_reference_put_full(name, &full);
    tn_jw_key(&w, "manifests");
    tn_jw_array(&w);
    begin_descriptor(&w, tn_hand_image_index(image));
    tn_jw_key(&w, "annotations");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "io.containerd.image.name", tn_buf_str(&full));
    tn_jw_kstr(&w, "org.opencontainers.image.ref.name", name->tag);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
}

/* What `docker load` looks for. */
static void put_docker_manifest(const struct tn_hand_image *image, const struct tn_reference *name,
                                struct tn_buf *out)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);

    tn_reference_put(name, &text);
    tn_buf_printf(out, "[{\"Config\":\"%s\",\"RepoTags\":[\"%s\"],\"Layers\":[\"%s\"]}]",
                  image->blobs[CONFIG].path, tn_buf_str(&text), image->blobs[LAYER].path);
}

static int write_tar(int fd, void *ctx, struct tn_error *err)
{
    struct tn_tar *tar = ctx;
    char piece[64 << 10];
    ssize_t n = 0;

    while ((n = tn_tar_read(piece, sizeof piece, tar, err)) > 0)
        if (tn_fs_write(fd, piece, (size_t)n, err) < 0)
            return -1;
    return (int)n;
}

static struct tn_engine_file in_archive(const char *name, const struct tn_buf *bytes)
{
    return (struct tn_engine_file){
        .name = name, .bytes = bytes->data, .size = bytes->len, .mode = 0644, .mtime = MADE};
}

int tn_hand_image_write(const struct tn_hand_image *image, const struct tn_reference *name,
                        const char *path, struct tn_error *err)
{
    tn_autobuf struct tn_buf layout = TN_BUF_INIT(64), index = TN_BUF_INIT(TEXT_MAX),
                             docker = TN_BUF_INIT(TEXT_MAX);
    tn_autofree struct tn_engine_file *files = tn_calloc(image->count + 5, sizeof *files);
    size_t n = 0;

    tn_buf_puts(&layout, "{\"imageLayoutVersion\":\"1.0.0\"}");
    put_layout_index(image, name, &index);
    put_docker_manifest(image, name, &docker);
    files[n++] = in_archive("oci-layout", &layout);
    files[n++] = in_archive("index.json", &index);
    files[n++] = in_archive("manifest.json", &docker);
    files[n++] = (struct tn_engine_file){.name = "blobs/", .mode = 0755, .mtime = MADE};
    files[n++] = (struct tn_engine_file){.name = TN_BLOBS, .mode = 0755, .mtime = MADE};
    for (size_t i = 0; i < image->count; i++)
        files[n++] = in_archive(image->blobs[i].path, &image->blobs[i].bytes);
    struct tn_tar tar;
    if (tn_tar_init(&tar, files, n, err) < 0)
        return -1;
    return tn_fs_replace(TN_FS_ANYWHERE, path, &(struct tn_fs_replace){.mode = 0644}, write_tar,
                         &tar, err);
}
