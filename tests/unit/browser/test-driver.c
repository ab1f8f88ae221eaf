/* Keys by name, and kinds of files by their first bytes. */
#include "hand/browser/download.h"
#include "hand/browser/input-keys.h"
#include "unit.h"

static const struct {
    const char *name;
    bool shift;
    const char *key, *code, *text;
    int number;
} keys[] = {
    {"a", false, "a", "KeyA", "a", 65},
    {"a", true, "A", "KeyA", "A", 65},
    {"A", false, "A", "KeyA", "A", 65},
    {"KeyA", false, "a", "KeyA", "a", 65},
    {"7", false, "7", "Digit7", "7", 55},
    {"Digit7", true, "&", "Digit7", "&", 55},
    {"&", false, "&", "Digit7", "&", 55},
    {"+", false, "+", "Equal", "+", 187},
    {"/", true, "?", "Slash", "?", 191},
    {"\"", false, "\"", "Quote", "\"", 222},
    {" ", false, " ", "Space", " ", 32},
    {"Space", false, " ", "Space", " ", 32},
    {"Enter", false, "Enter", "Enter", "\r", 13},
    {"ArrowLeft", false, "ArrowLeft", "ArrowLeft", "", 37},
    {"F12", false, "F12", "F12", "", 123},
    {"Numpad5", false, "5", "Numpad5", "5", 101},
    {"ControlOrMeta", false, "Control", "ControlLeft", "", 17},
    {"Shift", false, "Shift", "ShiftLeft", "", 16},
};

static void test_keys(void **state)
{
    for (size_t i = 0; i < TN_COUNT(keys); i++) {
        struct input_key key;
        assert_true(input_key_find(keys[i].name, keys[i].shift, &key));
        assert_string_equal(key.key, keys[i].key);
        assert_string_equal(key.code, keys[i].code);
        assert_string_equal(key.text, keys[i].text);
        assert_int_equal(key.number, keys[i].number);
    }
}

static void test_unknown_keys(void **state)
{
    static const char *const names[] = {"",        "Hyper",    "aa",    "Keya",   "Key1",
                                        "Digit",   "F0",       "F25",   "F1x",    "Numpad",
                                        "NumpadX", "\xc3\xa9", "enter", "Digit77"};
    struct input_key key;

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        if (input_key_find(names[i], false, &key))
            fail_msg("%s is a key", names[i]);
    }
    assert_int_equal(input_modifier("Control"), INPUT_CONTROL);
    assert_int_equal(input_modifier("ControlOrMeta"), INPUT_CONTROL);
    assert_int_equal(input_modifier("control"), 0);
}

static const struct {
    const char *bytes;
    size_t n;
    const char *extension;
} files[] = {
    {"%PDF-1.7\n", 9, ".pdf"},
    {"\x89PNG\r\n\x1a\n....", 12, ".png"},
    {"\xff\xd8\xff\xe0", 4, ".jpg"},
    {"RIFF....WEBPVP8 ", 16, ".webp"},
    {"RIFF....WAVEfmt ", 16, ".wav"},
    {"PK\x03\x04..........................word/document.xml", 47, ".docx"},
    {"PK\x03\x04..........................other", 35, ".zip"},
    {"\xfd"
     "7zXZ\0",
     6, ".xz"},
    {"plain words", 11, ""},
    {"%PD", 3, ""},
    {"", 0, ""},
};

static void test_extensions(void **state)
{
    for (size_t i = 0; i < TN_COUNT(files); i++) {
        const char *found = download_extension((const unsigned char *)files[i].bytes, files[i].n);
        assert_string_equal(found, files[i].extension);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_extensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
