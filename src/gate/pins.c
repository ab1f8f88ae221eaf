#include "gate/pins.h"

#include <sys/mman.h>
#include <sys/stat.h>

enum { PINS = 4096, WINDOW = 64 }; /* an address has its entries in a window */

struct pin {
    uint32_t check; /* of all that follows */
    int32_t family;
    uint8_t bytes[16];
    int64_t until; /* monotonic */
    char name[TN_NAME_MAX + 1];
};

struct tn_pins {
    struct pin *table;
};

static uint32_t hash(const void *bytes, size_t size, uint32_t h)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * 16777619u;
    return h;
}

static uint32_t check_of(const struct pin *pin)
{
    return hash((const uint8_t *)pin + sizeof pin->check, sizeof *pin - sizeof pin->check,
                2166136261u);
}

/* The last byte of the name is the end of a string whatever somebody wrote there. */
static bool holds(const struct pin *pin, const struct tn_address *a, int64_t now)
{
    return pin->until > now && pin->family == a->family &&
           memcmp(pin->bytes, a->bytes, sizeof pin->bytes) == 0 && pin->name[TN_NAME_MAX] == '\0' &&
           pin->check == check_of(pin);
}

static struct pin *window_at(const struct tn_pins *p, const struct tn_address *a, size_t i)
{
    return &p->table[(hash(a->bytes, sizeof a->bytes, 2166136261u) + i) % PINS];
}

int tn_pins_create(struct tn_error *err)
{
    tn_autofd int fd = memfd_create("pins", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, PINS * (off_t)sizeof(struct pin)) < 0)
        return tn_fail_errno(err, errno, "memory for names");
    return TN_TAKE_FD(fd);
}

struct tn_pins *tn_pins_open(int fd, struct tn_error *err)
{
    void *table = mmap(NULL, PINS * sizeof(struct pin), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (table == MAP_FAILED) {
        tn_fail_errno(err, errno, "memory for names");
        return NULL;
    }
    struct tn_pins *p = tn_calloc(1, sizeof *p);
    p->table = table;
    return p;
}

void tn_pins_close(struct tn_pins *p)
{
    if (p)
        munmap(p->table, PINS * sizeof(struct pin));
    free(p);
}

void tn_pins_add(struct tn_pins *p, const struct tn_address *a, const char *name, int64_t until)
{
    struct pin new = {.family = a->family, .until = until};
    struct pin *place = window_at(p, a, 0);

    memcpy(new.bytes, a->bytes, sizeof new.bytes);
    snprintf(new.name, sizeof new.name, "%s", name);
    new.check = check_of(&new);
    for (size_t i = 0; i < WINDOW; i++) {
        struct pin *pin = window_at(p, a, i);
        if (holds(pin, a, 0) && strcmp(pin->name, name) == 0) {
            place = pin;
            break;
        }
        if (pin->until < place->until)
            place = pin;
    }
    *place = new;
}

void tn_pins_each(const struct tn_pins *p, const struct tn_address *a, int64_t now,
                  void (*fn)(const char *name, void *ctx), void *ctx)
{
    for (size_t i = 0; i < WINDOW; i++) {
        const struct pin *pin = window_at(p, a, i);
        if (holds(pin, a, now))
            fn(pin->name, ctx);
    }
}

struct search {
    const char *name;
    bool found;
};

static void compare(const char *name, void *ctx)
{
    struct search *s = ctx;

    s->found |= strcmp(name, s->name) == 0;
}

bool tn_pins_have(const struct tn_pins *p, const struct tn_address *a, const char *name,
                  int64_t now)
{
    struct search s = {.name = name};

    tn_pins_each(p, a, now, compare, &s);
    return s.found;
}
