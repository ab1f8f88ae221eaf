#include "gate/rules.h"

#include <ctype.h>
#include <strings.h>

enum { NET_BITS = 7 }; /* fc00::/7 is the widest net of one kind that is not public */

const char *const tn_gate_modes[] = {
    [TN_GATE_OPEN] = "open",
    [TN_GATE_ALLOW] = "allow",
    NULL,
};

static const struct {
    const char *text;
    enum tn_rule_scheme scheme;
} schemes[] = {
    {"http://", TN_RULE_HTTP},
    {"https://", TN_RULE_TLS},
    {"tcp://", TN_RULE_TCP},
    {"udp://", TN_RULE_UDP},
};

static void rule_done(struct tn_rule *rule)
{
    free(rule->name);
    free(rule->methods);
    free(rule->path);
}

void tn_rules_done(struct tn_rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        rule_done(&r->items[i]);
    free(r->items);
    free(r->near);
    *r = (struct tn_rules){.mode = r->mode};
}

bool tn_name_normalise(const char *name, size_t size, char out[TN_NAME_MAX + 1])
{
    size_t label = 0;

    if (size > 0 && name[size - 1] == '.')
        size--;
    if (size == 0 || size > TN_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        bool dot = c == '.';
        if (dot ? label == 0 : !(isalnum(c) || c == '-' || c == '_') || ++label > 63)
            return false;
        if (dot)
            label = 0;
        out[i] = (char)tolower(c);
    }
    out[size] = '\0';
    return true;
}

/* --- reading ------------------------------------------------------------------------------- */

static int wrong(struct tn_error *err, const char *text, const char *expected)
{
    return tn_fail(err, TN_E_INVALID, "rule '%.200s': expected %s", text, expected);
}

static bool read_number(const char **at, long most, long *value)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    *value = strtol(*at, &end, 10);
    *at = end;
    return *value <= most;
}

/* "GET,HEAD " before everything else. */
static const char *read_methods(const char *at, struct tn_rule *rule)
{
    size_t n = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ,-");

    if (n == 0 || at[n] != ' ')
        return at;
    rule->methods = tn_strndup(at, n);
    return at + n + strspn(at + n, " ");
}

static const char *read_scheme(const char *at, struct tn_rule *rule)
{
    for (size_t i = 0; i < TN_COUNT(schemes); i++) {
        size_t n = strlen(schemes[i].text);
        if (strncasecmp(at, schemes[i].text, n) == 0) {
            rule->scheme = schemes[i].scheme;
            return at + n;
        }
    }
    return at;
}

/* An address, with brackets where it has colons, and the bits of its net. */
static const char *read_net(const char *at, struct tn_rule *rule)
{
    bool brackets = *at == '[';
    char text[TN_ADDRESS_TEXT];
    size_t n = strcspn(at + brackets, brackets ? "]" : ":/");
    const char *after = at + brackets + n + brackets;
    long bits;

    if (n >= sizeof text || (brackets && at[brackets + n] != ']'))
        return NULL;
    memcpy(text, at + brackets, n);
    text[n] = '\0';
    if (!tn_address_parse(text, &rule->net))
        return NULL;
    rule->bits = rule->net.family == AF_INET ? 32 : 128;
    if (*after != '/')
        return after;
    after++;
    if (!read_number(&after, rule->bits, &bits))
        return NULL;
    rule->bits = (int)bits;
    return after;
}

static const char *read_host(const char *at, struct tn_rule *rule)
{
    char name[TN_NAME_MAX + 1];

    rule->below = at[0] == '*' && at[1] == '.';
    at += rule->below ? 2 : 0;
    size_t n = strcspn(at, ":/");
    if (!tn_name_normalise(at, n, name))
        return NULL;
    rule->name = tn_strdup(name);
    return at + n;
}

static const char *read_ports(const char *at, struct tn_rule *rule)
{
    long first, last;

    if (*at != ':')
        return at;
    at++;
    if (*at == '*') {
        rule->first = 1;
        rule->last = UINT16_MAX;
        return at + 1;
    }
    if (!read_number(&at, UINT16_MAX, &first))
        return NULL;
    last = first;
    if (*at == '-') {
        at++;
        if (!read_number(&at, UINT16_MAX, &last))
            return NULL;
    }
    rule->first = (uint16_t)first;
    rule->last = (uint16_t)last;
    return first >= 1 && last >= first ? at : NULL;
}

static int check_rule(const struct tn_rule *rule, const char *text, struct tn_error *err)
{
    bool requests = rule->methods || rule->path;

    if (requests && ((rule->scheme != TN_RULE_HTTP && rule->scheme != TN_RULE_TLS) || !rule->name))
        return wrong(err, text, "http://NAME or https://NAME for a rule with methods or a path");
    if (rule->name && !rule->first && (rule->scheme == TN_RULE_TCP || rule->scheme == TN_RULE_UDP))
        return wrong(err, text, "a port after the name");
    return 0;
}

static int read_denial(const char *text, struct tn_rule *rule, struct tn_error *err)
{
    const char *after = read_net(text + 1, rule);

    rule->denies = true;
    return after && !*after ? 0
                            : wrong(err, text, "an address or a net, ADDRESS/BITS, after the !");
}

static int read_rule(const char *text, struct tn_rule *rule, struct tn_error *err)
{
    if (tn_rule_denies(text))
        return read_denial(text, rule, err);
    const char *at = read_scheme(read_methods(text, rule), rule);
    const char *after = read_net(at, rule);

    if (!after)
        after = read_host(at, rule);
    if (!after)
        return wrong(err, text, "a name, *.name or an address");
    after = read_ports(after, rule);
    if (!after)
        return wrong(err, text, "a port from 1 to 65535, first-last or * after the colon");
    if (*after == '/' && rule->name) {
        rule->path = tn_strdup(after);
        const char *star = strchr(after, '*');
        if (star && star[1])
            return wrong(err, text, "* only at the end of the path");
        after += strlen(after);
    }
    if (*after)
        return wrong(err, text, "nothing more after the port");
    return check_rule(rule, text, err);
}

static int add_list(struct tn_rules *r, const char *name, struct tn_error *err)
{
    for (size_t i = 0; i < tn_rule_list_count; i++) {
        if (strcmp(tn_rule_lists[i].name, name) != 0)
            continue;
        for (const char *const *rule = tn_rule_lists[i].rules; *rule; rule++)
            if (tn_rules_add(r, *rule, err) < 0)
                return -1;
        return 0;
    }
    return tn_fail(err, TN_E_INVALID,
                   "rule '@%.100s': no such list; there are @packages, @git and @models", name);
}

int tn_rules_add(struct tn_rules *r, const char *text, struct tn_error *err)
{
    struct tn_rule rule = {0};

    if (*text == '@')
        return add_list(r, text + 1, err);
    for (const char *at = text; *at; at++) /* a rule is a line of what the gate reads */
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return wrong(err, "", "no control characters");
    if (strlen(text) > TN_RULE_LENGTH || r->count >= TN_RULES_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "rules: more than %d, or one longer than %d bytes",
                       TN_RULES_MAX, TN_RULE_LENGTH);
    if (read_rule(text, &rule, err) < 0) {
        rule_done(&rule);
        return -1;
    }
    r->items = tn_realloc(r->items, (r->count + 1) * sizeof *r->items);
    r->items[r->count++] = rule;
    return 0;
}

bool tn_rule_for(const char *host, unsigned port, char out[TN_RULE_FOR])
{
    char name[TN_NAME_MAX + 1];
    struct tn_address address;
    bool by_address = tn_address_parse(host, &address);
    bool usual = !by_address && (port == 443 || port == 80);

    if (port < 1 || port > UINT16_MAX)
        return false;
    if (!by_address && (!tn_name_normalise(host, strlen(host), name) || strcmp(name, host) != 0))
        return false;
    if (usual)
        snprintf(out, TN_RULE_FOR, "%s", host);
    else
        snprintf(out, TN_RULE_FOR, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    return true;
}

bool tn_net_parse(const char *text, struct tn_rule *out)
{
    size_t n = strcspn(text, "/");
    char address[TN_ADDRESS_TEXT];
    const char *after = text + n + 1;
    long bits;

    if (n >= sizeof address || text[n] != '/')
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    if (!tn_address_parse(address, &out->net) ||
        !read_number(&after, out->net.family == AF_INET ? 32 : 128, &bits))
        return false;
    out->bits = (int)bits;
    return bits > 0 && !*after;
}

static int add_near(struct tn_rules *r, const char *text, struct tn_error *err)
{
    struct tn_rule net = {0};

    if (!tn_net_parse(text, &net) || r->near_count >= TN_RULES_MAX)
        return wrong(err, text, "a net, ADDRESS/BITS");
    r->near = tn_realloc(r->near, (r->near_count + 1) * sizeof *r->near);
    r->near[r->near_count++] = net;
    return 0;
}

int tn_rules_parse(const char *text, size_t size, struct tn_rules *r, struct tn_error *err)
{
    const char *end = text + size;
    bool first = true;

    *r = (struct tn_rules){.mode = TN_GATE_ALLOW};
    for (const char *next; text < end; text = next) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((newline ? newline : end) - text);
        next = newline ? newline + 1 : end;
        tn_autofree char *line = tn_strndup(text, n);
        if (first && strcmp(line, tn_gate_modes[TN_GATE_OPEN]) == 0)
            r->mode = TN_GATE_OPEN;
        else if (first                    ? strcmp(line, tn_gate_modes[TN_GATE_ALLOW]) != 0
                 : *line == TN_RULES_NEAR ? add_near(r, line + 1, err) < 0
                                          : *line && tn_rules_add(r, line, err) < 0)
            return first ? tn_fail(err, TN_E_INVALID, "rules: expected open or allow first") : -1;
        first = false;
    }
    return first ? tn_fail(err, TN_E_INVALID, "rules: expected open or allow first") : 0;
}

/* --- judging ------------------------------------------------------------------------------- */

static bool has_port(const struct tn_rule *rule, uint16_t port)
{
    if (rule->first)
        return port >= rule->first && port <= rule->last;
    if (!rule->name)
        return true;
    return (port == 80 && rule->scheme != TN_RULE_TLS) ||
           (port == 443 && rule->scheme != TN_RULE_HTTP);
}

static bool has_name(const struct tn_rule *rule, const char *name)
{
    size_t n = strlen(name), ours = rule->name ? strlen(rule->name) : 0;

    if (!rule->name)
        return false;
    if (!rule->below)
        return strcmp(name, rule->name) == 0;
    return n > ours + 1 && name[n - ours - 1] == '.' && strcmp(name + n - ours, rule->name) == 0;
}

static bool has_address(const struct tn_rule *rule, const struct tn_address *a, bool here)
{
    enum tn_address_kind kind = tn_address_kind(a);
    bool whole = rule->bits == (a->family == AF_INET ? 32 : 128);
    bool near = rule->bits >= NET_BITS && tn_address_kind(&rule->net) == kind;

    return !rule->name && tn_address_in(a, &rule->net, rule->bits) &&
           (rule->denies || ((whole || !here) && (kind == TN_ADDRESS_PUBLIC || near)));
}

/* Whether it is in that net, or leads to an address of IPv4 that is. */
static bool leads_into(const struct tn_address *a, const struct tn_rule *net)
{
    struct tn_address inner;

    return tn_address_in(a, &net->net, net->bits) ||
           (tn_address_unwrap(a, &inner) && tn_address_in(&inner, &net->net, net->bits));
}

bool tn_rules_are_near(const struct tn_rules *r, const struct tn_address *a)
{
    for (size_t i = 0; i < r->near_count; i++)
        if (leads_into(a, &r->near[i]))
            return true;
    return false;
}

bool tn_rules_deny(const struct tn_rules *r, const struct tn_address *a)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].denies && leads_into(a, &r->items[i]))
            return true;
    return false;
}

/* Whether rules about that address allow it; port 0: some port of it. */
static bool allow_address(const struct tn_rules *r, const struct tn_wish *w)
{
    int allowed = -1, denied = -1;
    struct tn_address inner;

    if (tn_address_unwrap(w->address, &inner) && tn_rules_deny(r, &inner))
        return false;
    for (size_t i = 0; i < r->count; i++) {
        const struct tn_rule *rule = &r->items[i];
        int *bits = rule->denies ? &denied : &allowed;
        bool same = rule->denies || !w->port ||
                    ((rule->scheme == TN_RULE_UDP) == w->udp && has_port(rule, w->port));
        if (same && rule->bits > *bits && has_address(rule, w->address, w->here))
            *bits = rule->bits;
    }
    return allowed >= 0 && allowed >= denied && !tn_rules_are_near(r, w->address);
}

bool tn_rule_is_too_wide(const struct tn_rule *rule)
{
    return !rule->name &&
           (rule->bits < NET_BITS || tn_address_net_is_mixed(&rule->net, rule->bits));
}

bool tn_rules_allow_address(const struct tn_rules *r, const struct tn_wish *w)
{
    return w->port && allow_address(r, w);
}

bool tn_rules_know_address(const struct tn_rules *r, const struct tn_address *a, bool here)
{
    return allow_address(r, &(struct tn_wish){.address = a, .here = here});
}

bool tn_rules_know_name(const struct tn_rules *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (has_name(&r->items[i], name))
            return true;
    return false;
}

bool tn_rules_have_port(const struct tn_rules *r, uint16_t port)
{
    for (size_t i = 0; i < r->count; i++)
        if (!r->items[i].denies && has_port(&r->items[i], port))
            return true;
    return false;
}

unsigned tn_rules_allow_name(const struct tn_rules *r, const char *name, const struct tn_wish *w)
{
    static const unsigned passes[] = {
        [TN_RULE_ANY] = TN_PASS_TLS | TN_PASS_HTTP,
        [TN_RULE_HTTP] = TN_PASS_HTTP,
        [TN_RULE_TLS] = TN_PASS_TLS,
        [TN_RULE_TCP] = TN_PASS_BLIND,
        [TN_RULE_UDP] = TN_PASS_BLIND,
    };
    unsigned pass = TN_PASS_NOT;

    for (size_t i = 0; i < r->count; i++) {
        const struct tn_rule *rule = &r->items[i];
        if ((rule->scheme == TN_RULE_UDP) != w->udp || !has_name(rule, name) ||
            !has_port(rule, w->port))
            continue;
        pass |= passes[rule->scheme];
        if (rule->scheme == TN_RULE_ANY && rule->first && w->port != 80 && w->port != 443)
            pass |= TN_PASS_RAW;
    }
    return pass;
}

/* --- requests ------------------------------------------------------------------------------ */

static bool has_method(const char *list, const char *method, size_t size)
{
    while (list) {
        size_t n = strcspn(list, ",");
        if (n == size && memcmp(list, method, n) == 0)
            return true;
        list = list[n] ? list + n + 1 : NULL;
    }
    return false;
}

/* Whether a part of the path leads elsewhere: "", "." or "..", then a slash or the end. */
static bool leads_elsewhere(const char *rest, size_t size)
{
    size_t dots = 0;

    while (dots < size && dots < 3 && rest[dots] == '.')
        dots++;
    bool slash = dots < size && rest[dots] == '/';
    return dots == 0 ? slash : dots < 3 && (slash || dots == size);
}

/* Servers see the same place behind many spellings; a rule about paths takes only the plain one. */
static bool is_plain(const char *path, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (path[i] == '%' || path[i] == '\\' || path[i] == ';' ||
            (path[i] == '/' && leads_elsewhere(path + i + 1, size - i - 1)))
            return false;
    return true;
}

static bool has_path(const char *pattern, const char *path, size_t size)
{
    size_t n = strlen(pattern), plain = 0;

    while (plain < size && path[plain] != '?')
        plain++;
    if (!is_plain(path, plain))
        return false;
    if (n > 0 && pattern[n - 1] == '*')
        return plain >= n - 1 && memcmp(path, pattern, n - 1) == 0;
    return plain == n && memcmp(path, pattern, n) == 0;
}

bool tn_rules_allow_request(const struct tn_rules *r, const struct tn_rule_request *q)
{
    enum tn_rule_scheme scheme = q->tls ? TN_RULE_TLS : TN_RULE_HTTP;

    for (size_t i = 0; i < r->count; i++) {
        const struct tn_rule *rule = &r->items[i];
        if ((rule->scheme == TN_RULE_ANY || rule->scheme == scheme) && has_name(rule, q->name) &&
            has_port(rule, q->port) &&
            (!rule->methods || has_method(rule->methods, q->method, q->method_size)) &&
            (!rule->path || has_path(rule->path, q->target, q->target_size)))
            return true;
    }
    return false;
}

static bool is_inside(const struct tn_rule *rule)
{
    return rule->scheme == TN_RULE_TLS && (rule->methods || rule->path);
}

bool tn_rules_look_inside(const struct tn_rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (is_inside(&r->items[i]))
            return true;
    return false;
}

bool tn_rules_end_tls(const struct tn_rules *r, const char *name, uint16_t port)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct tn_rule *rule = &r->items[i];
        if (is_inside(rule) && has_name(rule, name) && has_port(rule, port))
            return true;
    }
    return false;
}

/* --- comparing ----------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool names_one(const struct tn_rule *rule)
{
    return rule->bits == (rule->net.family == AF_INET ? 32 : 128);
}

/* As has_address has it: what a net lets through beyond what is public is of its own kind, and of
 * this machine only the one address that a rule names. */
static bool covers_net(const struct tn_rule *wide, const struct tn_rule *rule)
{
    enum tn_address_kind kind = tn_address_kind(&rule->net);
    bool near = wide->bits >= NET_BITS && tn_address_kind(&wide->net) == kind;

    return wide->bits <= rule->bits && tn_address_in(&rule->net, &wide->net, wide->bits) &&
           (names_one(rule) ? names_one(wide)
                            : rule->bits < NET_BITS || kind == TN_ADDRESS_PUBLIC || near);
}

static bool covers_host(const struct tn_rule *wide, const struct tn_rule *rule)
{
    if (!rule->name)
        return !wide->name && covers_net(wide, rule);
    if (!rule->below)
        return has_name(wide, rule->name);
    return wide->below && (same_text(wide->name, rule->name) || has_name(wide, rule->name));
}

static bool covers_ports(const struct tn_rule *wide, const struct tn_rule *rule)
{
    if (wide->first && rule->first)
        return wide->first <= rule->first && wide->last >= rule->last;
    return !wide->first && (!wide->name || !rule->first);
}

static bool covers_methods(const char *wide, const char *methods)
{
    if (!wide || !methods)
        return !wide;
    for (size_t n; *methods; methods += n + (methods[n] == ',')) {
        n = strcspn(methods, ",");
        if (!has_method(wide, methods, n))
            return false;
    }
    return true;
}

/* A pattern is compared by what stands before its star: whatever it lets through begins so. */
static bool covers_path(const char *wide, const char *path)
{
    size_t n = path ? strlen(path) : 0;
    bool star = n > 0 && path[n - 1] == '*', wide_star = wide && wide[strlen(wide) - 1] == '*';

    return !wide || same_text(wide, path) ||
           (path && (!star || wide_star) && has_path(wide, path, n - star));
}

static bool covers(const struct tn_rule *wide, const struct tn_rule *rule)
{
    bool web = rule->scheme == TN_RULE_HTTP || rule->scheme == TN_RULE_TLS;

    return (wide->scheme == rule->scheme || (wide->scheme == TN_RULE_ANY && web)) &&
           covers_host(wide, rule) && covers_ports(wide, rule) &&
           covers_methods(wide->methods, rule->methods) && covers_path(wide->path, rule->path);
}

/* It lets through public addresses and no other (has_address), none of this machine among them: of
 * these a rule must name the one. */
static bool is_public_net(const struct tn_rule *rule)
{
    return !rule->name && !names_one(rule) &&
           (rule->bits < NET_BITS || tn_address_kind(&rule->net) == TN_ADDRESS_PUBLIC);
}

/* Whether a net of more than so many bits is denied that this rule, by address, lies in: it would
 * go before the denial. */
static bool denied_beyond(const struct tn_rules *r, const struct tn_rule *rule, int bits)
{
    for (size_t i = 0; !rule->name && !rule->denies && i < r->count; i++) {
        const struct tn_rule *of = &r->items[i];
        if (of->denies && of->bits > bits && of->bits <= rule->bits &&
            tn_address_in(&rule->net, &of->net, of->bits))
            return true;
    }
    return false;
}

bool tn_rules_contradict(const struct tn_rules *r, const struct tn_rule *rule)
{
    return denied_beyond(r, rule, -1);
}

bool tn_rules_cover(const struct tn_rules *wide, const struct tn_rule *rule)
{
    if (rule->denies)
        return true;
    if (wide->mode == TN_GATE_OPEN && (rule->name || is_public_net(rule)) &&
        !denied_beyond(wide, rule, -1))
        return true;
    for (size_t i = 0; i < wide->count; i++)
        if (!wide->items[i].denies && covers(&wide->items[i], rule) &&
            !denied_beyond(wide, rule, wide->items[i].bits))
            return true;
    return false;
}

const struct tn_rule *tn_rules_denial_without(const struct tn_rules *these,
                                              const struct tn_rules *others)
{
    for (size_t i = 0; i < these->count; i++) {
        const struct tn_rule *rule = &these->items[i];
        bool too = !rule->denies;
        for (size_t k = 0; !too && k < others->count; k++)
            too = others->items[k].denies && others->items[k].bits == rule->bits &&
                  tn_address_in(&rule->net, &others->items[k].net, rule->bits);
        if (!too)
            return rule;
    }
    return NULL;
}
