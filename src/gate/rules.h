/* What a gated network lets through: a mode and a list of rules.
 *
 * A rule is one line:  [METHOD,... ] [SCHEME://] HOST [:PORT | :FIRST-LAST | :*] [/PATH]
 *     pypi.org                     that name, TLS on 443 and HTTP on 80
 *     *.pythonhosted.org           all names below it
 *     github.com:22                that port, any protocol; TLS and HTTP must still name the host
 *     tcp://build.example:9418     the same, and nobody looks at the bytes
 *     udp://ntp.example:123        UDP, which nothing else allows
 *     GET,HEAD https://x.example/a*  only these requests; * at the end.  What is inside TLS is seen
 *                                  by a gate that ends it: the sandbox must have an authority
 *     10.1.2.0/24:5432  [fd00::1]:80  addresses: also private ones, which no name reaches without
 *     !8.8.8.0/24                  denies these addresses, whatever the port and whatever name has
 *                                  them, but for rules about some of them
 *     @packages                    a list that ships (tn_rule_lists)
 * Schemes are http, https, tcp and udp.  Names are compared without case. */
#ifndef TN_GATE_RULES_H
#define TN_GATE_RULES_H

#include "base/error.h"
#include "base/field.h"
#include "net/address.h"

enum tn_gate_mode {
    TN_GATE_OPEN,  /* every public address; rules add others */
    TN_GATE_ALLOW, /* only what a rule names */
};
extern const char *const tn_gate_modes[];

enum tn_rule_scheme { TN_RULE_ANY, TN_RULE_HTTP, TN_RULE_TLS, TN_RULE_TCP, TN_RULE_UDP };

enum { TN_NAME_MAX = 253, TN_RULES_MAX = 4096, TN_RULE_LENGTH = 1024, TN_RULE_FOR = 300 };

struct tn_rule {
    enum tn_rule_scheme scheme;
    bool denies; /* a net, of all ports */
    char *name;  /* lower case, without "*."; NULL: by address */
    bool below;  /* names below that one */
    struct tn_address net;
    int bits;
    uint16_t first, last; /* ports; first 0: those that go without saying */
    char *methods;        /* "GET,HEAD", or NULL: all */
    char *path;           /* exactly, or what begins with it (a star at its end); NULL: all */
};

struct tn_rules {
    enum tn_gate_mode mode;
    struct tn_rule *items;
    size_t count;
    struct tn_rule *near; /* nets that are out of reach, whatever a rule says; of an operator */
    size_t near_count;
};

/* The lists that ship, NULL at the end of each. */
struct tn_rule_list {
    const char *name, *about;
    const char *const *rules;
};
extern const struct tn_rule_list tn_rule_lists[];
extern const size_t tn_rule_list_count;

void tn_rules_done(struct tn_rules *r);
#define tn_autorules TN_CLEANUP(tn_rules_done)

static inline bool tn_rule_denies(const char *text)
{
    return *text == '!';
}

/* One rule, or a list with @.  TN_E_INVALID says what is wrong with it. */
int tn_rules_add(struct tn_rules *r, const char *text, struct tn_error *err);
/* The rule that lets connections to that host (a name, or an address) and port through, as somebody
 * would write it.  False: it makes none. */
bool tn_rule_for(const char *host, unsigned port, char out[TN_RULE_FOR]);
/* ADDRESS/BITS, without brackets. */
bool tn_net_parse(const char *text, struct tn_rule *out);
/* The text form of all: the mode and then the rules, a line each; one of TN_RULES_NEAR and a net
 * says that this is near. */
#define TN_RULES_NEAR '~'
int tn_rules_parse(const char *text, size_t size, struct tn_rules *r, struct tn_error *err);

/* Makes it lower case and takes a dot off its end; false when it is no name of a host. */
bool tn_name_normalise(const char *name, size_t size, char out[TN_NAME_MAX + 1]);

/* Whether all that the rule lets through passes by these anyway. */
bool tn_rules_cover(const struct tn_rules *wide, const struct tn_rule *rule);
/* Whether that rule, by address, goes before one of these that denies. */
bool tn_rules_contradict(const struct tn_rules *r, const struct tn_rule *rule);
/* The first of those that these deny, which is none of the others; NULL: there is none. */
const struct tn_rule *tn_rules_denial_without(const struct tn_rules *these,
                                              const struct tn_rules *others);

/* What is asked for: a connection, once its protocol is known, or before. */
struct tn_wish {
    const struct tn_address *address;
    uint16_t port;
    bool udp;
    bool here; /* it is an address of this machine */
};

/* A rule by address.  One that covers half of the world is not about what is private in it: for
 * that the net itself must be of that kind, and for this machine the rule must name the very
 * address.  Of those that allow and those that deny, the one with the smallest net counts. */
bool tn_rules_allow_address(const struct tn_rules *r, const struct tn_wish *w);
/* Whether it is in a net that a rule denies, or leads into one (NAT64). */
bool tn_rules_deny(const struct tn_rules *r, const struct tn_address *a);
/* Whether it is in a net that is near. */
bool tn_rules_are_near(const struct tn_rules *r, const struct tn_address *a);
/* Whether it is a net so wide that it is not about all that is in it. */
bool tn_rule_is_too_wide(const struct tn_rule *rule);
/* Whether any rule is about that address, whatever the port: then a name may have it. */
bool tn_rules_know_address(const struct tn_rules *r, const struct tn_address *a, bool here);
/* Whether any rule is about that name, whatever the port: then it may be looked up. */
bool tn_rules_know_name(const struct tn_rules *r, const char *name);
/* Whether any rule is about that port. */
bool tn_rules_have_port(const struct tn_rules *r, uint16_t port);

/* How a rule by name allows a connection to that name. */
enum tn_rule_pass {
    TN_PASS_NOT,
    TN_PASS_TLS = 1 << 0,   /* if it is TLS for that name */
    TN_PASS_HTTP = 1 << 1,  /* if it is HTTP for that name, by tn_rules_allow_request */
    TN_PASS_RAW = 1 << 2,   /* if it is neither */
    TN_PASS_BLIND = 1 << 3, /* whatever it is */
};
unsigned tn_rules_allow_name(const struct tn_rules *r, const char *name, const struct tn_wish *w);
struct tn_rule_request {
    const char *name;
    uint16_t port;
    bool tls; /* it came inside TLS that the gate has ended */
    const char *method, *target;
    size_t method_size, target_size;
};
bool tn_rules_allow_request(const struct tn_rules *r, const struct tn_rule_request *q);

/* Whether any rule is about requests inside TLS: the sandbox must have an authority then. */
bool tn_rules_look_inside(const struct tn_rules *r);
/* Whether one of these is about that name and port. */
bool tn_rules_end_tls(const struct tn_rules *r, const char *name, uint16_t port);

#endif
