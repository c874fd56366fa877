#define PCRE2_CODE_UNIT_WIDTH 8

#include "cli/version.h"

#include "core/text.h"
#include "kernels/cuda_open.h"

#include <cairo.h>
#include <cblas.h>
#include <curses.h>
#include <jansson.h>
#include <lapacke.h>
#include <limits.h>
#include <link.h>
#include <omp.h>
#include <pcre2.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

#define WORDS_(x) #x
#define WORDS(x)  WORDS_(x)

// built NULL: its headers do not tell.
static void row(FILE *f, const char *name, const char *runs, const char *built) {
    fprintf(f, "%-14s %s", name, runs);
    if (built)
        fprintf(f, " (built with %s)", built);
    fputc('\n', f);
}

// The loaded file of a library that has no function to ask: "libsentencepiece.so.0.0.0".
static int find_loaded(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    char real[PATH_MAX];
    if (!strstr(info->dlpi_name, "libsentencepiece.") || !realpath(info->dlpi_name, real))
        return 0;
    snprintf(found, NAME_MAX + 1, "%s", strrchr(real, '/') + 1);
    return 1;
}

static void sentencepiece(FILE *f) {
#ifdef DELTOP_SENTENCEPIECE
    char file[NAME_MAX + 1] = "?";
    dl_iterate_phdr(find_loaded, file);
    row(f, "SentencePiece", file, DELTOP_SENTENCEPIECE);
#else
    (void)find_loaded;
    row(f, "SentencePiece", "left out: tokenizer.model files are not read", NULL);
#endif
}

static void cuda(FILE *f) {
    char path[PATH_MAX + 64];
    if (cuda_find(path, sizeof path))
        row(f, "CUDA backend", text_show(path), NULL);
    else
        row(f, "CUDA backend", "not found (deltop-cuda.so beside the program)", NULL);
}

void version_print(FILE *f) {
    char word[64];
    int major = 0, minor = 0, patch = 0;
    fprintf(f, "deltop %s\n", DELTOP_VERSION);
    row(f, "BLAS", openblas_get_config(), NULL);
    LAPACKE_ilaver(&major, &minor, &patch);
    snprintf(word, sizeof word, "%d.%d.%d", major, minor, patch);
    row(f, "LAPACKE", word, NULL);
    row(f, "cairo", cairo_version_string(), CAIRO_VERSION_STRING);
    row(f, "libpng", png_get_libpng_ver(NULL), PNG_LIBPNG_VER_STRING);
    row(f, "ncurses", curses_version(), NCURSES_VERSION);
    row(f, "jansson", jansson_version_str(), JANSSON_VERSION);
    if (pcre2_config(PCRE2_CONFIG_VERSION, word) < 0)
        snprintf(word, sizeof word, "?");
    row(f, "PCRE2", word, WORDS(PCRE2_MAJOR) "." WORDS(PCRE2_MINOR));
    row(f, "utf8proc", utf8proc_version(),
        WORDS(UTF8PROC_VERSION_MAJOR) "." WORDS(UTF8PROC_VERSION_MINOR) "." WORDS(
            UTF8PROC_VERSION_PATCH));
    sentencepiece(f);
    snprintf(word, sizeof word, "%d, %d threads", _OPENMP, omp_get_max_threads());
    row(f, "OpenMP", word, NULL);
    cuda(f);
    row(f, "MPI", "none needed: ranks find each other in the report's folder (docs/cluster.md)",
        NULL);
}
