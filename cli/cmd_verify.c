// deltop verify - every formula as a self-test, with its measured error.
#include "analyses/verify/verify.h"

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/say.h"
#include "core/file.h"
#include "core/text.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLOT_NONE, PLOT_PROP1 };
enum { DEMO_NONE, DEMO_ROTATION };

typedef struct verify_own {
    const char *only;
    int plot, demo;
    double cosine;
} verify_own;

static const verify_own defaults = {.cosine = 0.5};

static const option_spec own[] = {
    {"only", OPT_TEXT, offsetof(verify_own, only), .value = "IDS",
     .help = "checks whose id begins so, separated by commas: G,K05"},
    {"plot", OPT_CHOICE, offsetof(verify_own, plot), .choices = "none|prop1",
     .help = "instead: where two factors have complex eigenvalues (DeltaProduct, Proposition 1)"},
    {"cos", OPT_REAL, offsetof(verify_own, cosine), .lo = -1, .hi = 1,
     .help = "with --plot prop1: cosine between the two keys (default 0.5)"},
    {"demo", OPT_CHOICE, offsetof(verify_own, demo), .choices = "none|rotation",
     .help = "instead: two reflections that make a rotation by 120 degrees, step by step"},
};

// ---- the table ------------------------------------------------------------------------------------------

static void print_failure(const output *out, const verify_row *r) {
    const char *where = r->on_device ? "on the device" : "in float64";
    if (r->why[0])
        output_print(out, "       FAIL %s: %s\n", where, r->why);
    else
        output_print(out, "       FAIL %s: at most %.1e is allowed\n", where, r->allowed);
}

// One line a check: its error in float64, and on the device.
static void print_check(const output *out, const verify_row *r, const verify_row *device) {
    const verify_row *cell[] = {r && !r->on_device ? r : NULL, device};
    output_print(out, "  %-4s %-52s", r->c->id, r->c->what);
    bool pass = true;
    for (int i = 0; i < 2; i++) {
        if (cell[i])
            output_print(out, " %8.1e", cell[i]->error);
        else
            output_print(out, " %8s", "-");
        pass &= !cell[i] || cell[i]->pass;
    }
    output_print(out, "%s\n", pass ? "" : " !");
    for (int i = 0; i < 2; i++)
        if (cell[i] && !cell[i]->pass)
            print_failure(out, cell[i]);
}

static json_t *row_json(const verify_env *env, const verify_row *r) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:b, s:s}", "id", r->c->id, "what", r->c->what,
                     "device", r->on_device ? env->device->device : "cpu", "precision",
                     r->on_device ? "f32" : "f64", "error", output_json_real(r->error), "allowed",
                     r->allowed, "pass", (int)r->pass, "failure", r->why);
}

static void print_all(const output *out, const verify_env *env, const verify_result *r) {
    output_print(out, "Error of every formula; device: %s\n\n", env->device->device);
    output_print(out, "  %-4s %-52s %8s %8s\n", "id", "what", "float64", "device");
    for (size_t i = 0; i < r->n; i++) {
        const verify_row *a = &r->row[i], *b = i + 1 < r->n ? &r->row[i + 1] : NULL;
        bool both = b && b->c == a->c;
        print_check(out, a, both ? b : a->on_device ? a : NULL);
        i += both;
    }
    output_print(
        out,
        "\n%zu errors measured, %zu above what is allowed (--json tells what that is). K08 "
        "and T09\nare statements, not formulas.\n",
        r->n, r->failed);
}

static bool run_checks(const options *o, output *out, bool *pass, err *e) {
    const verify_own *v = o->own;
    char folder[400] = "";
    verify_env env = {.seed = (uint64_t)o->seed + 1};
    verify_result r = {0};
    json_t *checks = json_array(), *j = NULL;
    env.device = device_open_in(o, PRECISION_F32, e);
    env.exact = env.device ? cpu_open(PRECISION_F64, (int)o->threads, e) : NULL;
    bool ok = env.exact != NULL;
    if (ok)
        output_ran_on(out, env.device);
    ok = ok && file_temporary_folder("deltop-verify-", folder, sizeof folder, e);
    env.folder = folder;
    progress bar;
    progress_begin(&bar, "verify", 1, STDERR_FILENO);
    progress_phase(&bar, "checks");
    ok = ok && verify_run(&env, v->only, progress_tick, &bar, &r, e);
    progress_end(&bar);
    if (folder[0])
        rmdir(folder);
    for (size_t i = 0; ok && i < r.n; i++)
        if (json_array_append_new(checks, row_json(&env, &r.row[i])) != 0)
            ok = err_set(e, ERR_NOMEM, "out of memory: the JSON result");
    if (ok) {
        print_all(out, &env, &r);
        *pass = r.failed == 0;
        j = output_head(out);
        if (j && (json_object_set_new(j, "pass", json_boolean(*pass)) != 0 ||
                  json_object_set(j, "checks", checks) != 0)) {
            json_decref(j);
            j = NULL;
        }
        ok = output_finish(out, "verify.json", j, e);
    }
    json_decref(checks);
    verify_free(&r);
    backend_close(env.exact);
    backend_close(env.device);
    return ok;
}

// ---- --plot and --demo ----------------------------------------------------------------------------------

static bool plot(const options *o, output *out, err *e) {
    const verify_own *v = o->own;
    figures f;
    if (!verify_region(v->cosine, &f, e))
        return false;
    results_about a = {.name = "prop1", .source = NULL, .description = "closed form"};
    json_t *results = json_array();
    bool ok =
        results_figures(out, o, &f, &a, 0, e) && results_finish(out, "prop1.json", results, e);
    json_decref(results);
    figures_free(&f);
    return ok;
}

static void print_matrix(const output *out, const char *name, const double *m) {
    output_print(out, "  %s = [ %7.4f %7.4f ]\n  %*s   [ %7.4f %7.4f ]\n", name, m[0], m[1],
                 (int)strlen(name), "", m[2], m[3]);
}

static void times(const double *x, const double *y, double *out) {
    for (int i = 0; i < 4; i++)
        out[i] = x[i / 2 * 2] * y[i % 2] + x[i / 2 * 2 + 1] * y[2 + i % 2];
}

// I - 2 k k^T of the plane.
static void mirror(double x, double y, double *F) {
    const double m[4] = {1 - 2 * x * x, -2 * x * y, -2 * x * y, 1 - 2 * y * y};
    memcpy(F, m, sizeof m);
}

static bool demo(output *out, err *e) {
    double F1[4], F2[4], P[4], PP[4], PPP[4], r = sqrt(3) / 2;
    mirror(1, 0, F1);
    mirror(0.5, r, F2);
    times(F2, F1, P);
    times(P, P, PP);
    times(P, PP, PPP);
    output_print(out, "One factor F = I - beta k k' with beta = 2 is a mirror. Its eigenvalues are "
                      "real: 1\nand -1. Two mirrors whose keys are 60 degrees apart are a rotation "
                      "by 120.\n\n");
    output_print(out, "  k1 = (1, 0), k2 = (1/2, sqrt 3/2), beta = 2 and 2\n\n");
    print_matrix(out, "F1", F1);
    print_matrix(out, "F2", F2);
    output_print(out, "\n");
    print_matrix(out, "F2 F1", P);
    double trace = P[0] + P[3], det = P[0] * P[3] - P[1] * P[2];
    output_print(out, "  eigenvalues %.4f +- %.4f i: modulus %.4f, angle %.2f degrees\n\n",
                 trace / 2, sqrt(det - trace * trace / 4), sqrt(det),
                 acos(trace / 2 / sqrt(det)) * 180 / M_PI);
    print_matrix(out, "(F2 F1)^3", PPP);
    output_print(out, "\nSo a layer with n_h = 2 counts modulo 3: deltop theory mod3 --out mod3\n"
                      "writes it, deltop spectrum mod3 ... shows these eigenvalues.\n");
    json_t *j = output_head(out);
    if (j && json_object_set_new(j, "results",
                                 json_pack("[{s:f, s:f, s:f}]", "modulus", sqrt(det), "degrees",
                                           acos(trace / 2 / sqrt(det)) * 180 / M_PI, "cube_error",
                                           fmax(fmax(fabs(PPP[0] - 1), fabs(PPP[3] - 1)),
                                                fmax(fabs(PPP[1]), fabs(PPP[2]))))) != 0) {
        json_decref(j);
        j = NULL;
    }
    return output_finish(out, "rotation.json", j, e);
}

static int run(const options *o, err *e) {
    const verify_own *v = o->own;
    bool pass = true;
    if (o->n_operands > 0) {
        err_set(e, ERR_USAGE, "verify: takes no operand; leave %s away (--only names checks)",
                text_show(o->operand[0]));
        return EXIT_USAGE;
    }
    if ((v->plot != PLOT_NONE) + (v->demo != DEMO_NONE) + (v->only != NULL) > 1) {
        err_set(e, ERR_USAGE, "--only, --plot and --demo exclude each other");
        return EXIT_USAGE;
    }
    if (!options_need(o, (const char *const[]){"cos", NULL}, v->plot != PLOT_NONE, "--plot prop1",
                      e))
        return EXIT_USAGE;
    output *out = output_open(o, e);
    bool ok = out && (v->plot   ? plot(o, out, e)
                      : v->demo ? demo(out, e)
                                : run_checks(o, out, &pass, e));
    output_free(out);
    return !ok ? EXIT_FAILED : pass ? EXIT_DONE : EXIT_CHECK;
}

const command command_verify = {
    .name = "verify",
    .summary = "self-test of every formula",
    .usage = "",
    .details =
        "Measures the error of every formula that the program rests on (recurrences R, geometry "
        "and "
        "spectra G, parallel forms K, states S, theorems T) against closed forms, LAPACK and plain "
        "loops, in float64 on the CPU and, for what a device computes, in float32 on the device of "
        "--device; constructions of deltop theory go from disk through the whole model. Exit code "
        "4 "
        "when anything is further off than allowed. Needs no model and no network.",
    .example = "deltop verify --only R,K05,T\n"
               "deltop verify --device cuda\n"
               "deltop verify --plot prop1 --cos 0.5 --out prop1\n"
               "deltop verify --demo rotation",
    .files = "verify.json (with --plot: prop1.png, prop1.csv, prop1.json)",
    .words = true,
    .takes = TAKES_DEVICE | TAKES_THREADS | TAKES_SEED | TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(verify_own),
    .own_defaults = &defaults,
    .run = run,
};
