// The feature programs' stand-in where there is no nvcc: the same features by driver calls and PTX.
//
//     features NAME      tries one: 0 and `NAME: well[; note]`, 77 if this host cannot, else 1 and a line on stderr
//     features --list    their names
//
// A call that the driver refuses gives `refused: cuX: CUDA_ERROR_NAME` on stderr. No run takes more than 20 seconds.
#include "features.h"

#include <stdarg.h>

const char *feature_name = "features";

static const struct {
    const char *name;
    void (*run)(void);
} FEATURES[] = {
    {"cluster", cluster},
    {"tensor_tiled", tensor_tiled},
    {"tensor_im2col", tensor_im2col},
    {"tensor_memory", tensor_memory},
    {"cooperative", cooperative},
    {"pdl", pdl},
    {"wgmma", wgmma},
    {"stack_limit", stack_limit},
    {"texture", texture},
    {"mapped", mapped},
    {"host_function", host_function},
    {"overlap", overlap},
    {"printf", print},
    {"assert", assertion},
    {"capture_alloc", capture_alloc},
    {"graph_update", graph_update},
    {"async_copy", async_copy},
    {"event_step", event_step},
    {"fp8", fp8},
    {"cufft", cufft},
};

static void ended(const char *format, va_list with) {
    fflush(stdout);
    fprintf(stderr, "%s: ", feature_name);
    vfprintf(stderr, format, with);
    fprintf(stderr, "\n");
}

void fail(const char *format, ...) {
    va_list with;
    va_start(with, format);
    ended(format, with);
    _exit(1);
}

void skip(const char *format, ...) {
    va_list with;
    va_start(with, format);
    ended(format, with);
    _exit(77);
}

void well(const char *note) {
    printf("%s: well%s%s\n", feature_name, note ? "; " : "", note ? note : "");
    fflush(stdout);
}

static void late(int signal) {
    (void)signal;
    static const char text[] = ": not done within 20 s\n";
    ssize_t ignored = write(2, feature_name, strlen(feature_name));
    ignored = write(2, text, sizeof text - 1);
    (void)ignored;
    _exit(1);
}

void feature_alarm(void) {
    signal(SIGALRM, late);
    alarm(20);
}

int main(int count, char **arguments) {
    const int features = sizeof FEATURES / sizeof FEATURES[0];
    if (count == 2 && !strcmp(arguments[1], "--list")) {
        for (int i = 0; i < features; i++) printf("%s\n", FEATURES[i].name);
        return 0;
    }
    for (int i = 0; count == 2 && i < features; i++)
        if (!strcmp(arguments[1], FEATURES[i].name)) {
            feature_name = FEATURES[i].name;
            feature_alarm();
            FEATURES[i].run();
            fflush(stdout);
            _exit(0);
        }
    fprintf(stderr, "usage: features NAME | --list\n");
    return 2;
}
