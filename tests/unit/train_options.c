/* The command line, and that the manual page knows all of it. */
#include "train_options.h"

#include "tap.h"

/* Parse words up to NULL. */
static enum dsgd_err parse(struct train_options *opt, struct dsgd_error *err,
                           const char *a, const char *b, const char *c)
{
    char *argv[5] = {"dsgd-train", (char *)a, (char *)b, (char *)c, NULL};
    int argc = 1;

    while (argv[argc])
        argc++;
    return train_options_parse(argc, argv, opt, err);
}

static void refuses(const char *a, const char *b, const char *text)
{
    struct train_options opt = {.batch = 99};
    struct dsgd_error err = {""};

    ok(parse(&opt, &err, a, b, NULL) == DSGD_E_USAGE && opt.batch == 99,
       "refused: %s %s", a, b ? b : "");
    is_str(err.text, text, "its text");
}

static void test_good(void)
{
    struct train_options opt;
    struct dsgd_error err;

    is_int(parse(&opt, &err, NULL, NULL, NULL), DSGD_OK, "no options");
    is_str(opt.data, "/usr/share/datasets/fashion-mnist", "default --data");
    is_str(train_model_name(opt.model), "cnn", "default --model");
    is_str(train_schedule_name(opt.schedule), "cosine", "default --schedule");
    ok(opt.batch == 32 && opt.momentum == 0.9 && !opt.summary && !opt.help,
       "other defaults");
    is_int(parse(&opt, &err, "--model=softmax", "--lr", "0.5"), DSGD_OK,
           "values after = and as the next word");
    ok(opt.model == TRAIN_SOFTMAX && opt.lr == 0.5, "are both read");
    is_int(parse(&opt, &err, "--batch=8", "--batch=16", "--help"), DSGD_OK,
           "an option twice");
    ok(opt.batch == 16 && opt.help, "the last one counts");
    is_int(parse(&opt, &err, "--summary", "-", NULL), DSGD_OK, "--summary -");
    is_str(opt.summary, "-", "is kept");
}

static void test_refused(void)
{
    refuses("--epocs", "3",
            "--epocs: there is no such option; see dsgd-train "
            "--help");
    refuses("train", NULL, "\"train\" is not an option; see dsgd-train --help");
    refuses("-h", NULL, "\"-h\" is not an option; see dsgd-train --help");
    refuses("--", NULL, "\"--\" is not an option; see dsgd-train --help");
    refuses("--batch", NULL, "--batch needs a value: N");
    refuses("--batch", "0",
            "--batch: \"0\" is not a whole number from 1 to 65536");
    refuses("--batch", "1.5",
            "--batch: \"1.5\" is not a whole number from 1 to 65536");
    refuses("--max-steps", "-1",
            "--max-steps: \"-1\" is not a whole number from 0 to "
            "1000000000000");
    refuses("--batch=", NULL,
            "--batch: \"\" is not a whole number from 1 to 65536");
    refuses("--lr", "nan", "--lr: \"nan\" is not a number from 0 to 1000000");
    refuses("--lr", "-1", "--lr: \"-1\" is not a number from 0 to 1000000");
    refuses("--lr", "1x", "--lr: \"1x\" is not a number from 0 to 1000000");
    refuses("--model", "resnet",
            "--model: \"resnet\" is none of softmax|mlp|cnn");
    refuses("--summary=", NULL, "--summary: give a FILE");
    refuses("--help=yes", NULL, "--help takes no value");
    refuses("--straggle", "3",
            "--straggle: \"3\": give RANK:FACTOR with a factor from 1 to 1000, "
            "such as 3:2.5,7:4");
    refuses("--straggle", "3:2,", /* nothing after the comma */
            "--straggle: \"3:2,\": give RANK:FACTOR with a factor from 1 to "
            "1000, such as 3:2.5,7:4");
    refuses("--straggle", "3:0.5",
            "--straggle: \"3:0.5\": give RANK:FACTOR with a factor from 1 to "
            "1000, such as 3:2.5,7:4");
}

static void test_straggle(void)
{
    near(train_straggle_factor(NULL, 3), 1, 0, "nobody straggles");
    near(train_straggle_factor("3:2.5,7:4", 3), 2.5, 0, "rank 3");
    near(train_straggle_factor("3:2.5,7:4", 7), 4, 0, "rank 7");
    near(train_straggle_factor("3:2.5,7:4", 0), 1, 0, "rank 0");

    struct dsgd_error err = {""};
    is_int(train_straggle_check(NULL, 1, &err), DSGD_OK, "nobody, of one");
    is_int(train_straggle_check("3:2.5,7:4", 8, &err), DSGD_OK, "of eight");
    is_int(train_straggle_check("3:2.5,7:4", 7, &err), DSGD_E_USAGE,
           "of seven");
    is_str(err.text, "--straggle: there is no rank 7 among 7 workers, 0 to 6",
           "says which is not there");
}

/* Every option of --help is an item of the page, and the other way round. */
static void test_page(void)
{
    const char *src = getenv("DSGD_SRCDIR");
    char path[512], *help = NULL, *page = NULL, *save, name[64], want[80];
    size_t n = 0, options = 0, items = 0;

    snprintf(path, sizeof path, "%s/doc/dsgd-train.1", src ? src : ".");
    FILE *f = fopen(path, "r");
    if (!f) {
        ok(false, "%s is there", path);
        return;
    }
    if (getdelim(&page, &n, '\0', f) < 0)
        page = calloc(1, 1);
    fclose(f);
    f = open_memstream(&help, &n);
    train_options_help(f);
    fclose(f);
    for (char *line = strtok_r(help, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (sscanf(line, " --%63[a-z-]", name) != 1)
            continue;
        options++;
        snprintf(want, sizeof want, ".It Fl -%s", name);
        has_str(page, want, "the manual page has this option");
    }
    for (char *at = page; (at = strstr(at, ".It Fl -")); at++)
        items++;
    is_int((long long)items, (long long)options,
           "the manual page has no other options");
    free(help), free(page);
}

int main(void)
{
    test_good();
    test_refused();
    test_straggle();
    test_page();
    return done();
}
