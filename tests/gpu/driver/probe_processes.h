// A second process that uses the GPU beside `probe`: it is forked before the driver is opened, and told what to do by
// one letter: c opens a context; w launches and waits; b keeps its queue full; s stops. It answers each with a letter.
#ifndef WARPLOOM_PROBE_PROCESSES_H
#define WARPLOOM_PROBE_PROCESSES_H

#include "probe.h"

#include <poll.h>

static int companion_in = -1, companion_out = -1;
static pid_t companion;

static int next_letter(int file, int wait_ms) {
    char letter;
    struct pollfd ready = {file, POLLIN, 0};
    if (poll(&ready, 1, wait_ms) <= 0) return 0;
    return read(file, &letter, 1) == 1 ? letter : -1;
}

// Works as the letter says until the next letter comes; that letter.
static int companion_works(int which) {
    for (;;) {
        int kernels = which == 'b' ? 20 : 1;
        for (int i = 0; i < kernels; i++) {
            if (which == 'b')
                start_busy(132, 43000, here);
            else
                start(nothing, 1, 1, here, NULL);
        }
        DO(cuStreamSynchronize, here);
        int letter = next_letter(companion_in, 0);
        if (letter) return letter;
    }
}

static _Noreturn void companion_main(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    volatile int opened = 0;
    for (int letter = next_letter(companion_in, -1); letter > 0;) {
        if (!opened && strchr("cwb", letter)) open_probe(), opened = 1;
        if (ATTEMPT()) _exit(1);
        if (write(companion_out, "k", 1) != 1) _exit(1);
        letter = letter == 'w' || letter == 'b' ? companion_works(letter) : next_letter(companion_in, -1);
    }
    _exit(0);
}

// Forks the second process; before the driver is opened.
static void start_companion(void) {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) return;
    companion = fork();
    if (companion == 0) {
        close(to[1]), close(from[0]);
        companion_in = to[0];
        companion_out = from[1];
        companion_main();
    }
    close(to[0]), close(from[1]);
    if (companion < 0) return;
    companion_in = from[0];
    companion_out = to[1];
    signal(SIGPIPE, SIG_IGN);
}

// Tells the second process what to do, and waits until it has begun.
static void companion_ask(int letter) {
    char text = (char)letter;
    if (companion_out < 0 || write(companion_out, &text, 1) != 1 || next_letter(companion_in, 15000) != 'k')
        give_up("the second process does not answer");
}

static void stop_companion(void) {
    if (companion <= 0) return;
    close(companion_out);
    kill(companion, SIGKILL);
    waitpid(companion, NULL, 0);
}

#endif
