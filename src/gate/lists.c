/* The lists of rules that ship: what an agent that writes programs usually needs. */
#include "gate/rules.h"

static const char *const packages[] = {
    /* Python */
    "pypi.org",
    "files.pythonhosted.org",
    "*.pythonhosted.org",
    "repo.anaconda.com",
    "conda.anaconda.org",
    /* JavaScript */
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "nodejs.org",
    "deno.land",
    "jsr.io",
    "npm.jsr.io",
    /* Rust, Go, Ruby, Java, PHP, .NET, Perl, R, Haskell */
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    "proxy.golang.org",
    "sum.golang.org",
    "go.dev",
    "dl.google.com",
    "rubygems.org",
    "index.rubygems.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "plugins.gradle.org",
    "services.gradle.org",
    "packagist.org",
    "repo.packagist.org",
    "api.nuget.org",
    "www.cpan.org",
    "cran.r-project.org",
    "hackage.haskell.org",
    /* Linux */
    "deb.debian.org",
    "security.debian.org",
    "archive.ubuntu.com",
    "security.ubuntu.com",
    "ports.ubuntu.com",
    "dl-cdn.alpinelinux.org",
    "mirrors.fedoraproject.org",
    "dl.fedoraproject.org",
    NULL,
};

static const char *const git[] = {
    "github.com",
    "github.com:22",
    "tcp://ssh.github.com:443",
    "codeload.github.com",
    "api.github.com",
    "raw.githubusercontent.com",
    "objects.githubusercontent.com",
    "*.githubusercontent.com",
    "gitlab.com",
    "gitlab.com:22",
    "bitbucket.org",
    "bitbucket.org:22",
    "codeberg.org",
    "codeberg.org:22",
    NULL,
};

static const char *const models[] = {
    "https://api.openai.com",
    "https://api.anthropic.com",
    "https://generativelanguage.googleapis.com",
    "https://api.mistral.ai",
    "https://api.groq.com",
    "https://api.deepseek.com",
    "https://api.x.ai",
    "https://api.cohere.com",
    "https://openrouter.ai",
    "https://api.together.xyz",
    "https://api.fireworks.ai",
    "https://huggingface.co",
    "https://cdn-lfs.huggingface.co",
    "https://router.huggingface.co",
    NULL,
};

const struct tn_rule_list tn_rule_lists[] = {
    {"packages", "registries of packages: Python, JavaScript, Rust, Go, Java, Linux, ...",
     packages},
    {"git", "hosts of git repositories", git},
    {"models", "providers of language models", models},
};
const size_t tn_rule_list_count = TN_COUNT(tn_rule_lists);
