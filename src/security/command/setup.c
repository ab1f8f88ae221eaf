/* Commands that print what sets up a shell: completions, hooks, variables. */
#include "security/command/walk.h"

static const struct {
    const char *programs, *verbs; /* verbs NULL: needs none */
} printers[] = {
    {"kubectl helm gh minikube kind docker podman nerdctl oc k3d k3s argocd flux istioctl eksctl npm "
     "crictl kubeadm skaffold stern yq hugo golangci-lint velero cilium tkn",
     "completion"},
    {"poetry rustup deno", "completions"},
    {"uv uvx", "generate-shell-completion"},
    {"pyenv rbenv nodenv goenv jenv starship zoxide", "init"},
    {"conda mamba micromamba", "shell.bash shell.zsh shell.posix"},
    {"direnv", "hook"},
    {"brew", "shellenv"},
    {"opam fnm", "env"},
    {"mise", "activate"},
    {"minikube", "docker-env"},
    {"ssh-agent dircolors lesspipe", NULL},
};

/* Words that only say for which shell. */
static const char for_shell[] = "bash zsh fish sh - -s -b --shell --path --no-rehash hook";

/* Whether the text defines a command of that name itself. */
static bool is_defined(const struct walker *w, const char *name)
{
    for (const struct function *f = w->functions; f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return true;
    for (const struct alias *a = w->aliases; a; a = a->next)
        if (strcmp(a->name, name) == 0)
            return true;
    return false;
}

/* Whether a program begins with a search path of its own. */
static bool takes_path(const struct tn_call *c)
{
    for (const struct tn_call_assign *a = c->assigns; a && c->argc; a = a->next)
        if (strcmp(a->name, "PATH") == 0)
            return true;
    for (size_t i = 1; i < c->argc && listed("env sudo doas", c->name); i++)
        if (strncmp(c->argv[i].text, "PATH=", strlen("PATH=")) == 0)
            return true;
    return false;
}

/* Whether the text changes where programs are found, but for directories that installers use. */
static bool is_misled(const struct walker *w, const struct place *at)
{
    static const char usual[] = "$PATH ${PATH} $HOME/.* ~/.* /usr/* /opt/* /bin /sbin "
                                "/home/linuxbrew/.linuxbrew/*";
    const char *text, *entry;

    for (const struct tn_call *c = w->calls->first; c; c = c->next)
        if ((listed("hash enable", c->name) && c->argc > 2) || takes_path(c))
            return true;
    if (!vars_touched(at->vars, "PATH"))
        return false;
    entry = vars_get(at->vars, "PATH", &text);
    entry = entry ? entry : text;
    if (!entry || strstr(entry, "..") || vars_touched(at->vars, "HOME"))
        return true;
    for (size_t n;; entry += n + 1) {
        n = strcspn(entry, ":");
        tn_autofree char *one = tn_strndup(entry, n);
        if (!listed(usual, one))
            return true;
        if (!entry[n])
            return false;
    }
}

bool is_setup(const struct walker *w, const struct place *at, const struct tn_arg *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789 .-";
    size_t len = strlen(word->text);
    if (len < 4 || !strchr("<$", word->text[0]) || word->text[1] != '(' ||
        word->text[len - 1] != ')')
        return false;
    tn_autofree char *text = tn_strndup(word->text + 2, len - 3);
    if (text[strspn(text, plain)])
        return false;
    char *verb = strchr(text, ' '), *last;
    while ((last = strrchr(text, ' ')) != verb && listed(for_shell, last + 1))
        *last = '\0';
    if (verb)
        *verb++ = '\0';
    for (size_t i = 0; i < TN_COUNT(printers); i++)
        if (listed(printers[i].programs, text) &&
            (!verb ? !printers[i].verbs
                   : listed(printers[i].verbs ? printers[i].verbs : for_shell, verb)))
            return !is_defined(w, text) && !is_misled(w, at);
    return false;
}
