/* Traces on disk: what is read, what is refused and how the fault is named. */
#include "trace.h"

#include <unistd.h>

#include "scenario.h"
#include "tap.h"

static struct trace_text text_of(const char *path, const char *text)
{
    return (struct trace_text){path, (char *)text, text ? strlen(text) : 0};
}

static enum dsgd_err parse(const char *csv, const char *nodes,
                           const char *telemetry, struct trace **t,
                           struct dsgd_error *warning, struct dsgd_error *err)
{
    struct trace_text c = text_of("a/x.csv", csv),
                      n = text_of("a/x.nodes", nodes),
                      u = text_of("a/x.telemetry.csv", telemetry);

    return trace_parse(&c, nodes ? &n : NULL, telemetry ? &u : NULL, NULL, 0, t,
                       warning, err);
}

static void refused(const char *csv, const char *nodes, const char *telemetry,
                    const char *message)
{
    struct trace *t = (struct trace *)&t;
    struct dsgd_error warning, err = {""};
    enum dsgd_err rc = parse(csv, nodes, telemetry, &t, &warning, &err);

    if (!ok(rc == DSGD_E_FORMAT && !t &&
                strncmp(err.text, message, strlen(message)) == 0,
            "refused: %s", message))
        printf("#   got %d \"%s\"\n", rc, err.text);
}

static void hostile_rows(void)
{
    refused("", NULL, NULL, "a/x.csv: empty;");
    refused("\n \r\n\t\n", NULL, NULL, "a/x.csv: empty;");
    refused("\xef\xbb\xbf", NULL, NULL, "a/x.csv: empty;");
    refused("\xef\xbb", NULL, NULL, "a/x.csv:1:1: \"\?\?\" is not a finite");
    refused("1,2\n3,nan\n", NULL, NULL, "a/x.csv:2:2: \"nan\" is not a finite");
    refused("1,inf\n", NULL, NULL, "a/x.csv:1:2: \"inf\" is not a finite");
    refused("1,1e999\n", NULL, NULL, "a/x.csv:1:2: \"1e999\" is not a finite");
    refused("0,1\n", NULL, NULL, "a/x.csv:1:1: \"0\" is not a duration");
    refused("1,-0.5\n", NULL, NULL, "a/x.csv:1:2: \"-0.5\" is not a duration");
    refused("1,1e-320\n", NULL, NULL, "a/x.csv:1:2: \"1e-320\" is not a dur");
    refused("1,,3\n", NULL, NULL, "a/x.csv:1:2: \"\" is missing");
    refused("1,2,\n", NULL, NULL, "a/x.csv:1:3: \"\" is missing");
    refused("1,2\n\n3,4\n", NULL, NULL, "a/x.csv:2:1: \"\" is missing");
    refused("1,2,3\n4,5\n", NULL, NULL,
            "a/x.csv:2:2: the row ends here, the first one has 3 columns");
    refused("1,2\n4,5,6\n", NULL, NULL,
            "a/x.csv:2:3: more columns than the 2 of the first row");
    refused("w0,w1\n1,2\n", NULL, NULL,
            "a/x.csv:1:1: \"w0\" is not a finite number; a trace has durations "
            "alone, no header");
    refused("1;2\n", NULL, NULL, "a/x.csv:1:1: \"1;2\" is not a finite");
    refused("1 2\n", NULL, NULL, "a/x.csv:1:1: \"1 2\" is not a finite");
    refused("1,\x01\xff\x1b[m\n", NULL, NULL,
            "a/x.csv:1:2: \"\?\?\?[m\" is not");
    refused("1,aaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", NULL, NULL,
            "a/x.csv:1:2: \"aaaaaaaaaaaaaaaaaaaa…\" is not");
}

static void rows(void)
{
    struct trace *t;
    struct dsgd_error w, err;

    is_int(
        parse("\xef\xbb\xbf 1, 2.5\t,3e2\r\n4,5,6", NULL, NULL, &t, &w, &err),
        DSGD_OK, "a byte order mark, spaces, DOS line ends, no last line end");
    ok(t->steps == 2 && t->n == 3 && t->n_nodes == 3 && t->features == 0 &&
           t->duration_s[1] == 2.5 && t->duration_s[2] == 300 &&
           t->duration_s[5] == 6 && t->node[2] == 2,
       "values; a worker a node");
    is_str(t->name, "x", "its name");
    trace_free(t);
    is_int(parse("7\n\n\n", NULL, NULL, &t, &w, &err), DSGD_OK,
           "one worker, one step, empty lines at the end");
    ok(t->steps == 1 && t->n == 1 && t->duration_s[0] == 7, "its value");
    trace_free(t);
}

/* 100,000 columns, and a cell of a megabyte. */
static void large(void)
{
    enum { N = 100000, LONG = 1 << 20 };
    char *csv = malloc(4 * N + 1), *nodes = malloc(8 * N + 1);
    size_t used = 0, at = 0;
    struct trace *t;
    struct dsgd_error w, err;

    for (int i = 0; i < N; i++) {
        csv[used++] = (char)('1' + i % 9);
        csv[used++] = i + 1 < N ? ',' : '\n';
        at += (size_t)sprintf(nodes + at, "n%d\n", i % 1000);
    }
    memcpy(csv + used, csv, used);
    csv[2 * used] = '\0';
    is_int(parse(csv, nodes, NULL, &t, &w, &err), DSGD_OK, "100,000 columns");
    ok(t && t->n == N && t->steps == 2 && t->n_nodes == 1000 &&
           t->column[1] == 1000 && t->duration_s[1] == 1 + 1000 % 9,
       "on 1000 nodes");
    trace_free(t);
    csv = realloc(csv, LONG + 8);
    memset(csv, '9', LONG);
    strcpy(csv + LONG, "x,1\n");
    ok(parse(csv, NULL, NULL, &t, &w, &err) == DSGD_E_FORMAT &&
           strstr(err.text, "1:1: \"99999999999999999999…\" is not"),
       "a cell of a megabyte");
    free(csv);
    free(nodes);
}

static void nodes(void)
{
    struct trace *t;
    struct dsgd_error w, err;

    is_int(parse("1,2,3,4\n5,6,7,8\n", "b\na\nb\n a \n", NULL, &t, &w, &err),
           DSGD_OK, "workers dealt to two nodes");
    ok(t->n_nodes == 2 && t->node[0] == 0 && t->node[1] == 0 &&
           t->node[2] == 1 && t->node[3] == 1 && t->column[1] == 2 &&
           t->column[2] == 1,
       "are put node by node");
    ok(t->duration_s[1] == 3 && t->duration_s[2] == 2 && t->duration_s[5] == 7,
       "their durations too");
    is_str(t->node_name[0], "b", "the first column's node is the first");
    is_str(t->node_name[1], "a", "without the spaces");
    trace_free(t);
    refused("1,2\n", "a\n", NULL,
            "a/x.nodes:1: 1 node names for the 2 columns of the trace");
    refused("1,2\n", "a\nb\nc\n", NULL, "a/x.nodes:3: 3 node names for the 2");
    refused("1,2\n", "a\n\nb\n", NULL, "a/x.nodes:2:1: \"\" is no node name");
    refused("1,2\n", "a,b\nb\n", NULL, "a/x.nodes:1:2: \"b\" follows");
}

static void telemetry(void)
{
    struct trace *t;
    struct dsgd_error w, err;

    is_int(parse("1,2\n3,4\n", "a\nb\n",
                 "step,node,load1,wheels,steal\n1,b,.5,round,\n0,a,1,,2\n", &t,
                 &w, &err),
           DSGD_OK, "telemetry");
    ok(t->features == 8 && t->telemetry[8 * 0 + 1] == 1 &&
           t->telemetry[8 * 0 + 6] == 2 && t->telemetry[8 * 3 + 1] == .5f &&
           isnan(t->telemetry[8 * 3 + 6]) && isnan(t->telemetry[8 * 1 + 1]) &&
           isnan(t->telemetry[0]),
       "by name; an empty cell, a missing row or column is not valid");
    is_str(w.text,
           "a/x.telemetry.csv: telemetry that is not known is ignored: wheels",
           "an unknown column is named");
    trace_free(t);
    is_int(parse("1,2\n", NULL, "step,node,load1\n0,1,.5\n", &t, &w, &err),
           DSGD_OK, "without node names they count from 0");
    near(t->telemetry[8 + 1], .5, 0, "its value");
    is_str(w.text, "", "no warning");
    trace_free(t);
    parse("1,2\n", NULL, "step,node,\033[2J\xff\n", &t, &w, &err);
    ok(strstr(w.text, "ignored: ?[2J?"), "what a terminal obeys is not shown");
    trace_free(t);
    refused("1,2\n", NULL, "node,step\n",
            "a/x.telemetry.csv:1: the first line");
    refused("1,2\n", NULL, "", "a/x.telemetry.csv:1: the first line must be");
    refused("1,2\n", NULL, "step,node,load1,load1\n",
            "a/x.telemetry.csv:1:4: \"load1\" is there twice");
    refused("1,2\n", NULL, "step,node,load1\n1,0,1\n",
            "a/x.telemetry.csv:2:1: \"1\" is no step of the trace");
    refused("1,2\n", NULL, "step,node,load1\n-1,0,1\n",
            "a/x.telemetry.csv:2:1: \"-1\" is no step");
    refused("1,2\n", NULL, "step,node,load1\n0,2,1\n",
            "a/x.telemetry.csv:2:2: \"2\" is no node: without a .nodes file");
    refused("1,2\n", "a\nb\n", "step,node,load1\n0,aa,1\n",
            "a/x.telemetry.csv:2:2: \"aa\" is not among the nodes");
    refused("1,2\n", NULL, "step,node,load1\n0,1,x\n",
            "a/x.telemetry.csv:2:3: \"x\" is not a finite number; leave");
    refused("1,2\n", NULL, "step,node,load1\n0,1\n",
            "a/x.telemetry.csv:2: the row has fewer columns");
    refused("1,2\n", NULL, "step,node,load1\n0,1,1,1\n",
            "a/x.telemetry.csv:2:4: \"1\" has no column");
    refused("1,2\n", NULL, "step,node,load1\n0,1,1\n0,1,1\n",
            "a/x.telemetry.csv:3:2: \"1\" has this step twice");
    refused("1,2\n", NULL, "step,node,load1\n0\n",
            "a/x.telemetry.csv:2: the node is missing");
}

static void names(void)
{
    char csv[] = "1,2\n";
    const struct trace_text text = {"a/\xc3\xa4\xff\033.csv", csv, 4};
    struct trace *t;

    trace_parse(&text, NULL, NULL, NULL, 0, &t, NULL, NULL);
    is_str(t ? t->name : NULL, "\xc3\xa4??", "a name is UTF-8 and printable");
    trace_free(t);
}

static void round_trip(const char *dir)
{
    char path[4096];
    struct scenario s;
    struct trace *a, *b = NULL;
    struct dsgd_error w, err;

    scenario_parse("mix:n=10,N=3,T=20", &s, &err);
    scenario_make(&s, SCENARIO_FEATURES, &a, &err);
    snprintf(path, sizeof path, "%s/mix.csv", dir);
    is_int(trace_write(a, path, &err), DSGD_OK, "written");
    is_int(trace_read(path, NULL, 0, &b, &w, &err), DSGD_OK, "read again");
    ok(b && b->n_nodes == 3 && b->features == 8 &&
           memcmp(a->duration_s, b->duration_s, 200 * sizeof(double)) == 0 &&
           memcmp(a->node, b->node, 10 * sizeof *a->node) == 0,
       "the same bits");
    bool same = true;
    for (size_t i = 0; b && i < 20 * 3 * 8; i++)
        same &= a->telemetry[i] == b->telemetry[i] ||
                (isnan(a->telemetry[i]) && isnan(b->telemetry[i]));
    ok(same, "and the same telemetry");
    a->features = 0;
    trace_free(b);
    is_int(trace_write(a, path, &err), DSGD_OK,
           "one without telemetry over it");
    ok(trace_read(path, NULL, 0, &b, &w, &err) == DSGD_OK && !b->features,
       "has none when it is read");
    trace_free(a);
    trace_free(b);
    unlink(path);
    snprintf(path, sizeof path, "%s/mix.nodes", dir);
    unlink(path);
    ok(trace_read("/nowhere/x.csv", NULL, 0, &b, &w, &err) == DSGD_E_IO &&
           strstr(err.text, "/nowhere/x.csv: No such file"),
       "a missing file: %s", err.text);
}

int main(void)
{
    char dir[] = "/tmp/dsgd-trace-XXXXXX";

    hostile_rows();
    rows();
    large();
    nodes();
    telemetry();
    names();
    if (ok(mkdtemp(dir), "a folder")) {
        round_trip(dir);
        rmdir(dir);
    }
    struct trace *t;
    struct dsgd_error err;
    ok(trace_create(SIZE_MAX / 4, 8, 1, 0, &t, &err) == DSGD_E_RANGE && !t,
       "sizes that overflow");
    is_int(trace_create(5, 3, 4, 0, &t, &err), DSGD_E_RANGE,
           "more nodes than workers");
    trace_free(NULL);
    return done();
}
