#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/setup/git.h"

static const struct tn_git_token tokens[] = {
    {TN_GIT_GITHUB, "ghp", NULL},         {TN_GIT_GITLAB, "glp@at", "git.example.org"},
    {TN_GIT_BITBUCKET, "me:p/w", NULL},   {TN_GIT_AZURE_DEVOPS, "azp4t", "ignored.example.org"},
    {TN_GIT_ENTERPRISE_SSO, "sso", NULL},
};

static void test_places(void **state)
{
    static const struct {
        const char *repository;
        enum tn_git_provider provider;
        const char *url, *authenticated, *directory, *helper_key;
    } cases[] = {
        {"o/r", TN_GIT_GITHUB, "https://github.com/o/r.git", "https://ghp@github.com/o/r.git", "r",
         "credential.https://github.com.helper"},
        {"o/r", TN_GIT_PROVIDERS, "https://github.com/o/r.git", "https://ghp@github.com/o/r.git",
         "r", "credential.https://github.com.helper"},
        {"o/r.git", TN_GIT_GITHUB, "https://github.com/o/r.git", "https://ghp@github.com/o/r.git",
         "r", "credential.https://github.com.helper"},
        {"g/sub/r", TN_GIT_GITLAB, "https://git.example.org/g/sub/r.git",
         "https://oauth2:glp%40at@git.example.org/g/sub/r.git", "r",
         "credential.https://git.example.org.helper"},
        {"o/r", TN_GIT_BITBUCKET, "https://bitbucket.org/o/r.git",
         "https://me:p%2Fw@bitbucket.org/o/r.git", "r", "credential.https://bitbucket.org.helper"},
        {"My Org/a project/r", TN_GIT_AZURE_DEVOPS,
         "https://dev.azure.com/My%20Org/a%20project/_git/r",
         "https://My%20Org:azp4t@dev.azure.com/My%20Org/a%20project/_git/r", "r",
         "credential.https://dev.azure.com.helper"},
        /* Whole URLs get the token of the host that they name, and of no other. */
        {"https://github.com/o/r", TN_GIT_GITLAB, "https://github.com/o/r",
         "https://ghp@github.com/o/r", "r", "credential.https://github.com.helper"},
        {"https://GIT.example.org/o/r.git", TN_GIT_PROVIDERS, "https://GIT.example.org/o/r.git",
         "https://oauth2:glp%40at@GIT.example.org/o/r.git", "r",
         "credential.https://GIT.example.org.helper"},
        {"https://github.com.evil.org/o/r", TN_GIT_GITHUB, "https://github.com.evil.org/o/r",
         "https://github.com.evil.org/o/r", "r", NULL},
        {"http://github.com/o/r", TN_GIT_GITHUB, "http://github.com/o/r", "http://github.com/o/r",
         "r", NULL},
        {"https://u:p@github.com/o/r", TN_GIT_GITHUB, "https://u:p@github.com/o/r",
         "https://u:p@github.com/o/r", "r", NULL},
        {"https://evil.org/@github.com/r", TN_GIT_GITHUB, "https://evil.org/@github.com/r",
         "https://evil.org/@github.com/r", "r", NULL},
        {"git@github.com:o/r.git", TN_GIT_GITHUB, "git@github.com:o/r.git",
         "git@github.com:o/r.git", "r", NULL},
        {"ssh://git@h/o/r.git/", TN_GIT_GITHUB, "ssh://git@h/o/r.git/", "ssh://git@h/o/r.git/", "r",
         NULL},
        {"/srv/git/r.git", TN_GIT_PROVIDERS, "/srv/git/r.git", "/srv/git/r.git", "r", NULL},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        autoplace struct git_place p = {0};
        tn_autobuf struct tn_buf url = TN_BUF_INIT(1 << 12);
        struct tn_error err = {0};
        if (git_place_find(&p, cases[i].repository, cases[i].provider, tokens, TN_COUNT(tokens),
                           &err) < 0)
            fail_msg("%s: %s", cases[i].repository, err.text);
        git_put_authenticated_url(&p, &url);
        assert_string_equal(p.url, cases[i].url);
        assert_string_equal(tn_buf_str(&url), cases[i].authenticated);
        assert_string_equal(p.directory, cases[i].directory);
        if (cases[i].helper_key)
            assert_string_equal(p.helper_key, cases[i].helper_key);
        else
            assert_null(p.helper_key);
        /* What a clone keeps names a variable, never the token. */
        assert_true(!p.helper || !strstr(p.helper, p.token->token));
    }
}

static void test_without_token(void **state)
{
    autoplace struct git_place p = {0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 12);
    struct tn_error err = {0};

    assert_int_equal(git_place_find(&p, "o/r", TN_GIT_PROVIDERS, NULL, 0, &err), 0);
    git_put_authenticated_url(&p, &text);
    assert_string_equal(tn_buf_str(&text), "https://github.com/o/r.git");
    tn_buf_reset(&text);
    git_put_helper_option(&p, "-c", &text);
    git_put_token_assignment(&p, &text);
    assert_string_equal(tn_buf_str(&text), "");
    git_place_done(&p);
    /* The provider of the only token is meant. */
    assert_int_equal(git_place_find(&p, "o/r", TN_GIT_PROVIDERS, &tokens[2], 1, &err), 0);
    assert_string_equal(p.url, "https://bitbucket.org/o/r.git");
}

static void test_wrong_places(void **state)
{
    static const struct {
        const char *repository;
        enum tn_git_provider provider;
    } cases[] = {
        {"", TN_GIT_GITHUB},
        {"r", TN_GIT_GITHUB},
        {"o/r/", TN_GIT_GITHUB},
        {"o//r", TN_GIT_GITHUB},
        {"../r", TN_GIT_GITHUB},
        {"o/..", TN_GIT_GITHUB},
        {"o/-r", TN_GIT_GITHUB},
        {"o/r", TN_GIT_AZURE_DEVOPS},
        {"o/r", TN_GIT_ENTERPRISE_SSO},
        {"ext::sh -c x", TN_GIT_GITHUB},
        {"git@h::x/y", TN_GIT_AZURE_DEVOPS},
        {"https://h/a b", TN_GIT_GITHUB},
        {"https://h/a\nb", TN_GIT_GITHUB},
        {"a/b/c/d", TN_GIT_AZURE_DEVOPS},
        {"https://h/..", TN_GIT_GITHUB},
        {"fd::17/foo", TN_GIT_AZURE_DEVOPS},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct git_place p = {0};
        struct tn_error err = {0};
        if (git_place_find(&p, cases[i].repository, cases[i].provider, tokens, TN_COUNT(tokens),
                           &err) == 0)
            fail_msg("'%s' is %s?", cases[i].repository, p.url);
        assert_null(p.url);
        assert_true(err.text[0]);
    }
}

static void test_branches(void **state)
{
    static const char *const good[] = {"main", "feature/x", "v1.0", "a'b", "\xc3\xa9", "x$(y)"};
    static const char *const bad[] = {"",   "-x",  "a b", "a..b", "a~1", "HEAD^", "x:y", "/x",
                                      "x/", "x//", "@",   "a@{1", "x.",  "a\\b",  "a\tb"};

    for (size_t i = 0; i < TN_COUNT(good); i++)
        assert_int_equal(git_check_branch(good[i], NULL), 0);
    for (size_t i = 0; i < TN_COUNT(bad); i++)
        assert_int_equal(git_check_branch(bad[i], NULL), -1);
}

static void test_owners(void **state)
{
    static const struct {
        const char *repository;
        enum tn_git_provider provider;
        const char *owner, *shared;
    } cases[] = {
        {"o/r", TN_GIT_GITHUB, "o", "o/.openhands"},
        {"g/sub/r", TN_GIT_GITLAB, "sub", "sub/openhands-config"},
        {"o/r", TN_GIT_BITBUCKET, "o", "o/.openhands"},
        {"o/p/r", TN_GIT_AZURE_DEVOPS, "o", "o/openhands-config/openhands-config"},
        {"https://github.com/o/r", TN_GIT_GITHUB, NULL, NULL},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        const struct git_place p = {.provider = cases[i].provider};
        tn_autofree char *owner = git_owner(&p, cases[i].repository);
        if (!cases[i].owner) {
            assert_null(owner);
            continue;
        }
        assert_string_equal(owner, cases[i].owner);
        tn_autofree char *shared = git_owner_repository(p.provider, owner);
        assert_string_equal(shared, cases[i].shared);
    }
}

static void test_names(void **state)
{
    enum tn_git_provider provider;

    for (int i = 0; i < TN_GIT_PROVIDERS; i++) {
        assert_int_equal(tn_git_provider_find(tn_git_provider_name(i), &provider, NULL), 0);
        assert_int_equal(provider, i);
    }
    assert_string_equal(tn_git_provider_key(TN_GIT_AZURE_DEVOPS), "azure_devops_token");
    assert_int_equal(tn_git_provider_find("sourceforge", &provider, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),       cmocka_unit_test(test_without_token),
        cmocka_unit_test(test_wrong_places), cmocka_unit_test(test_branches),
        cmocka_unit_test(test_owners),       cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
