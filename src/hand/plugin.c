#include "hand/plugin.h"

#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "hand/external/external.h"
#include "hand/hand.h"

const struct tn_plugin *const tn_plugins[] = {
    &tn_plugin_jupyter, &tn_plugin_agent_skills, &tn_plugin_vscode,
    &tn_plugin_browser, &tn_plugin_mcp,          NULL,
};

const struct tn_plugin *tn_plugin_find(const char *name)
{
    for (const struct tn_plugin *const *p = tn_plugins; *p; p++) {
        if (strcmp((*p)->name, name) == 0)
            return *p;
    }
    return NULL;
}

int tn_plugin_lacks(const struct tn_plugin *plugin, struct tn_error *err)
{
    return err ? tn_fail(err, err->code, "%s; to get it: %s", err->text, plugin->install) : -1;
}

/* --- names on the command line -------------------------------------------------------------- */

static void list_program(const char *name, void *ctx)
{
    struct tn_buf *known = ctx;

    tn_buf_printf(known, "%s%s", known->len ? ", " : "", name);
}

int tn_plugin_check(const struct tn_hand_options *options, const char *name, struct tn_error *err)
{
    tn_autobuf struct tn_buf known = TN_BUF_INIT(300);
    tn_autofree char *program = tn_plugin_find(name) ? NULL : tn_plugin_search(options, name);

    if (program || tn_plugin_find(name))
        return 0;
    for (const struct tn_plugin *const *p = tn_plugins; *p; p++) {
        if ((*p)->flags & TN_PLUGIN_NAMED)
            list_program((*p)->name, &known);
    }
    tn_external_list(options, list_program, &known);
    return tn_fail(err, TN_E_INVALID,
                   "Plugin %.60s not found: put a program tendon-plugin-%.60s %s, or name another: "
                   "there are %s",
                   name, name, TN_EXTERNAL_PLACE, tn_buf_str(&known));
}

/* --- states --------------------------------------------------------------------------------- */

struct slot {
    const struct tn_plugin *row;
    void *state;
    struct tn_external *external; /* the state, where it is a program of its own */
    bool enabled;                 /* atomic */
    pthread_t starter;
    bool starting;
    struct tn_hand *hand;
};

struct tn_plugin_states {
    size_t count;
    struct slot slots[];
};

static struct tn_plugin_states *states_of(const struct tn_hand *hand)
{
    return __atomic_load_n(&hand->plugins, __ATOMIC_ACQUIRE);
}

static struct slot *slot_of(const struct tn_hand *hand, const struct tn_plugin *plugin)
{
    struct tn_plugin_states *states = states_of(hand);

    for (size_t i = 0; i < states->count; i++) {
        if (states->slots[i].row == plugin)
            return &states->slots[i];
    }
    return NULL;
}

static bool asked_for(const struct tn_hand_options *o, const char *name)
{
    for (size_t i = 0; i < o->plugins.count; i++) {
        if (strcmp(o->plugins.items[i], name) == 0)
            return true;
    }
    return false;
}

static bool switched_off(const struct tn_hand *hand, const struct tn_plugin *plugin)
{
    return plugin->flags & TN_PLUGIN_BROWSER && !hand->options.enable_browser;
}

static struct slot *add_slot(struct tn_plugin_states *states, struct tn_hand *hand,
                             const struct tn_plugin *row)
{
    struct slot *slot = &states->slots[states->count++];

    *slot = (struct slot){
        .row = row,
        .enabled = !(row->flags & TN_PLUGIN_NAMED) || asked_for(&hand->options, row->name),
        .hand = hand,
    };
    return slot;
}

/* Named twice is named once. */
static bool has_slot(const struct tn_plugin_states *states, const char *name)
{
    for (size_t i = 0; i < states->count; i++) {
        if (strcmp(states->slots[i].row->name, name) == 0)
            return true;
    }
    return false;
}

struct tn_plugin_states *tn_plugins_open(struct tn_hand *hand)
{
    const struct tn_str_list *names = &hand->options.plugins;
    size_t rows = 0;

    while (tn_plugins[rows])
        rows++;
    hand->ending = eventfd(0, EFD_CLOEXEC);
    struct tn_plugin_states *states =
        tn_calloc(1, sizeof *states + (rows + names->count) * sizeof *states->slots);
    for (size_t i = 0; i < rows; i++) {
        struct slot *slot = add_slot(states, hand, tn_plugins[i]);
        slot->state = slot->row->open(hand);
    }
    for (size_t i = 0; i < names->count; i++) {
        if (has_slot(states, names->items[i]))
            continue;
        struct tn_external *external = tn_external_open(hand, names->items[i]);
        struct slot *slot = add_slot(states, hand, tn_external_row(external));
        slot->state = slot->external = external;
    }
    return states;
}

/* --- start and end -------------------------------------------------------------------------- */

static void *start_in_background(void *arg)
{
    struct slot *slot = arg;
    struct tn_error err = {0};

    if (slot->row->start(slot->state, tn_deadline_in((double)slot->hand->options.plugin_seconds),
                         &err) < 0)
        tn_log(TN_LOG_WARN, "plugin not started", tn_log_str("plugin", slot->row->name),
               tn_log_str("reason", err.text));
    else
        tn_log(TN_LOG_INFO, "plugin started", tn_log_str("plugin", slot->row->name));
    return NULL;
}

void tn_plugins_start(struct tn_hand *hand)
{
    struct tn_plugin_states *states = states_of(hand);

    for (size_t i = 0; i < states->count; i++) {
        struct slot *slot = &states->slots[i];
        bool now = slot->row->flags & TN_PLUGIN_IMMEDIATE || hand->options.start_plugins;
        if (now && tn_plugin_enabled(hand, slot->row))
            slot->starting = tn_thread_start(&slot->starter, start_in_background, slot) == 0;
    }
}

void tn_plugins_interrupt(struct tn_hand *hand)
{
    struct tn_plugin_states *states = states_of(hand);

    if (states)
        eventfd_write(hand->ending, 1);
    for (size_t i = 0; states && i < states->count; i++) {
        struct slot *slot = &states->slots[i];
        if (slot->row->interrupt)
            slot->row->interrupt(slot->state);
    }
}

void tn_plugins_session_gone(struct tn_hand *hand, const char *name)
{
    struct tn_plugin_states *states = states_of(hand);

    for (size_t i = 0; states && i < states->count; i++) {
        struct slot *slot = &states->slots[i];
        if (slot->row->session_gone)
            slot->row->session_gone(slot->state, name);
    }
}

void tn_plugins_close(struct tn_hand *hand)
{
    struct tn_plugin_states *states = states_of(hand);

    if (!states)
        return;
    for (size_t i = 0; i < states->count; i++) {
        if (states->slots[i].starting)
            pthread_join(states->slots[i].starter, NULL);
    }
    /* The latest first: agent_skills uses jupyter. */
    for (size_t i = states->count; i-- > 0;)
        states->slots[i].row->close(states->slots[i].state);
    __atomic_store_n(&hand->plugins, NULL, __ATOMIC_RELEASE);
    tn_close(hand->ending);
    free(states);
}

/* --- questions ------------------------------------------------------------------------------ */

size_t tn_plugins_count(const struct tn_hand *hand)
{
    return states_of(hand)->count;
}

const struct tn_plugin *tn_plugins_at(const struct tn_hand *hand, size_t i)
{
    return states_of(hand)->slots[i].row;
}

void *tn_plugin_state(struct tn_hand *hand, const struct tn_plugin *plugin)
{
    return slot_of(hand, plugin)->state;
}

bool tn_plugin_enabled(const struct tn_hand *hand, const struct tn_plugin *plugin)
{
    return !switched_off(hand, plugin) &&
           __atomic_load_n(&slot_of(hand, plugin)->enabled, __ATOMIC_RELAXED);
}

int tn_plugin_enable(struct tn_hand *hand, const struct tn_plugin *plugin, struct tn_error *err)
{
    if (switched_off(hand, plugin))
        return tn_fail(err, TN_E_CONFLICT, "%s is switched off: the hand runs with %s",
                       plugin->name, "--no-enable-browser");
    __atomic_store_n(&slot_of(hand, plugin)->enabled, true, __ATOMIC_RELAXED);
    return 0;
}

/* --- actions -------------------------------------------------------------------------------- */

static const struct tn_plugin_action *claim(const struct tn_plugin *row, enum tn_action_type type)
{
    const struct tn_plugin_action *action = row->actions;

    while (action && action->execute && action->type != type)
        action++;
    return action && action->execute ? action : NULL;
}

/* "NAME.ACTION": the program NAME, if the host asked for it. */
static struct tn_external *owner_of(struct tn_hand *hand, const char *action)
{
    struct tn_plugin_states *states = states_of(hand);

    for (size_t i = 0; i < states->count; i++) {
        const struct slot *slot = &states->slots[i];
        size_t n = strlen(slot->row->name);
        if (slot->external && strncmp(action, slot->row->name, n) == 0 && action[n] == '.')
            return slot->external;
    }
    return NULL;
}

static int execute_external(struct tn_hand *hand, const struct tn_action *a,
                            struct tn_observation *o, struct tn_error *err)
{
    struct tn_external *owner = owner_of(hand, a->plugin.name);

    if (!owner)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "no plugin for the action %.60s: --plugins must name a program "
                       "tendon-plugin-%.*s",
                       a->plugin.name, (int)strcspn(a->plugin.name, "."), a->plugin.name);
    tn_external_execute(owner, a, o);
    return 0;
}

int tn_plugins_execute(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                       struct tn_delivery *delivery, struct tn_error *err)
{
    const struct tn_plugin_action *action = NULL;
    const struct tn_plugin *const *p = tn_plugins;

    if (a->type == TN_ACTION_PLUGIN)
        return execute_external(hand, a, o, err);
    while (*p && !(action = claim(*p, a->type)))
        p++;
    if (!action)
        return tn_fail(err, TN_E_UNSUPPORTED, "'ActionExecutor' object has no attribute '%s'",
                       tn_action_name(a->type));
    if (tn_plugin_enabled(hand, *p))
        action->execute(hand, a, o, delivery);
    else if ((*p)->flags & TN_PLUGIN_NAMED)
        return tn_fail(err, TN_E_UNSUPPORTED, "%s", (*p)->not_asked);
    else
        tn_observation_init_error(o, a, "%s", (*p)->not_asked);
    return 0;
}
