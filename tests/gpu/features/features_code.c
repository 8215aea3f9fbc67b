// What kernels do by themselves, for `features`: print, assert, recurse, sample textures, convert small floats.
#include "features.h"

#include <fcntl.h>
#include <math.h>
#include <sys/wait.h>

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

// Reads what stands in a pipe, as text.
static void drain(int from, char *to, size_t room) {
    size_t length = 0;
    for (ssize_t got; length + 1 < room && (got = read(from, to + length, room - 1 - length)) > 0;) length += got;
    to[length] = 0;
}

// Appends a text as PTX data: `.global .align 1 .b8 name[] = {…};`
static char *data(char *end, const char *name, const char *text) {
    end += sprintf(end, ".global .align 1 .b8 %s[%zu] = {", name, strlen(text) + 1);
    for (const char *at = text; *at; at++) end += sprintf(end, "%d, ", *at);
    return end + sprintf(end, "0};\n");
}

void print(void) {
    static char text[2048], seen[4096];
    char *end = text;
    end += sprintf(end, HEAD ".extern .func (.param .b32 done) vprintf (.param .b64 f, .param .b64 a);\n");
    end = data(end, "line", "thread %d has %.2f\n");
    sprintf(end,
            ".visible .entry say() {\n"
            "  .local .align 8 .b8 values[16]; .reg .u64 %%l, %%a; .reg .u32 %%t; .reg .f64 %%d;\n"
            "  mov.u32 %%t, %%tid.x; cvt.rn.f64.u32 %%d, %%t; mul.f64 %%d, %%d, 0d3FD0000000000000;\n"
            "  mov.u64 %%a, values; cvta.local.u64 %%a, %%a; st.u32 [%%a], %%t; st.f64 [%%a+8], %%d;\n"
            "  mov.u64 %%l, line; cvta.global.u64 %%l, %%l;\n"
            "  { .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %%l; st.param.b64 [v], %%a;\n"
            "    call.uni (r), vprintf, (f, v); }\n"
            "  ret; }\n");
    driver_open();
    CUhandle function = kernel_of(text, "say");
    int ends[2], keep = dup(1);
    if (keep < 0 || pipe(ends)) fail("no pipe");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fflush(stdout);
    dup2(ends[1], 1);
    start(function, 1, 8, NULL, NULL);
    int code = TRY(cuCtxSynchronize);
    fflush(stdout);
    dup2(keep, 1);
    close(ends[1]);
    if (code) refused("cuCtxSynchronize", code);
    drain(ends[0], seen, sizeof seen);
    for (int thread = 0; thread < 8; thread++) {
        char line[40];
        snprintf(line, sizeof line, "thread %d has %.2f\n", thread, thread / 4.0);
        if (!strstr(seen, line)) fail("not printed: thread %d has %.2f", thread, thread / 4.0);
    }
    well(NULL);
}

// The PTX of a kernel that asserts that its thread is below a limit.
static const char *asserting(void) {
    static char text[4096];
    char *end = text + sprintf(text, HEAD
                               ".extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l,"
                               " .param .b64 n, .param .b64 s);\n");
    end = data(end, "message", "thread < limit");
    end = data(end, "file", "features_code.c");
    end = data(end, "function", "verify");
    sprintf(end,
            ".visible .entry verify(.param .u32 limit) {\n"
            "  .reg .u64 %%m, %%f, %%n, %%s; .reg .u32 %%t, %%l; .reg .pred %%p;\n"
            "  ld.param.u32 %%l, [limit]; mov.u32 %%t, %%tid.x; setp.lt.u32 %%p, %%t, %%l; @%%p bra holds;\n"
            "  mov.u64 %%m, message; cvta.global.u64 %%m, %%m; mov.u64 %%f, file; cvta.global.u64 %%f, %%f;\n"
            "  mov.u64 %%n, function; cvta.global.u64 %%n, %%n; mov.u64 %%s, 1; mov.u32 %%l, 7;\n"
            "  { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n"
            "    st.param.b64 [m], %%m; st.param.b64 [f], %%f; st.param.b32 [l], %%l;\n"
            "    st.param.b64 [n], %%n; st.param.b64 [s], %%s; call.uni __assertfail, (m, f, l, n, s); }\n"
            "holds: ret; }\n");
    return text;
}

// Verifies 32 threads against a limit; the code of the wait.
static int verified(uint32_t limit) {
    CUhandle function = kernel_of(asserting(), "verify");
    void *arguments[] = {&limit};
    start(function, 1, 32, NULL, arguments);
    return TRY(cuCtxSynchronize);
}

static void assert_in_child(void) {
    feature_alarm();
    driver_open();
    int code = verified(32);
    if (code) refused("cuCtxSynchronize", code);
    code = verified(31);
    if (code != 710) fail("a failed assertion gives %d, not 710", code);
    CUdeviceptr more;
    code = TRY(cuMemAlloc_v2, &more, (size_t)100);
    if (code != 710) fail("a call after it gives %d, not 710", code);
    _exit(0);
}

void assertion(void) {
    static char seen[4096];
    int ends[2], status = 0;
    if (pipe(ends)) fail("no pipe");
    pid_t pid = fork();
    if (pid < 0) fail("no child");
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        assert_in_child();
    }
    close(ends[1]);
    drain(ends[0], seen, sizeof seen);
    waitpid(pid, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code) {
        fprintf(stderr, "%s", seen);
        _exit(code == 77 ? 77 : 1);
    }
    driver_open();
    code = verified(32);
    if (code) fail("a program after it gets %d", code);
    well(strstr(seen, "Assertion `thread < limit` failed") ? "with its message" : "without its message");
}

// A function that keeps 96 bytes of its own, calls itself, and reads them afterwards.
static const char *RECURSIVE =
    HEAD
    ".func (.param .b32 r) deep (.param .b32 left);\n"
    ".func (.param .b32 r) deep (.param .b32 left) {\n"
    "  .local .align 8 .b8 own[96]; .reg .u32 %l, %m, %v, %i; .reg .u64 %a; .reg .pred %p;\n"
    "  ld.param.b32 %l, [left]; mov.u64 %a, own; cvta.local.u64 %a, %a; mov.u32 %i, 0;\n"
    "fill: add.u32 %v, %l, %i; st.volatile.u32 [%a], %v; add.u64 %a, %a, 4; add.u32 %i, %i, 1;\n"
    "  setp.lt.u32 %p, %i, 24; @%p bra fill;\n"
    "  mov.u32 %m, 0; setp.eq.u32 %p, %l, 0; @%p bra flat;\n"
    "  { .param .b32 n; .param .b32 s; sub.u32 %v, %l, 1; st.param.b32 [n], %v;\n"
    "    call.uni (s), deep, (n); ld.param.b32 %m, [s]; }\n"
    "flat: mov.u64 %a, own; cvta.local.u64 %a, %a; mov.u32 %i, 0;\n"
    "add: ld.volatile.u32 %v, [%a]; add.u32 %m, %m, %v; add.u64 %a, %a, 4; add.u32 %i, %i, 1;\n"
    "  setp.lt.u32 %p, %i, 24; @%p bra add;\n"
    "  st.param.b32 [r], %m; ret; }\n"
    ".visible .entry run(.param .u64 out, .param .u32 depth) {\n"
    "  .reg .u64 %o, %w; .reg .u32 %d, %t;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %d, [depth]; mov.u32 %t, %tid.x;\n"
    "  mul.wide.u32 %w, %t, 4; add.u64 %o, %o, %w;\n"
    "  { .param .b32 n; .param .b32 s; st.param.b32 [n], %d; call.uni (s), deep, (n); ld.param.b32 %d, [s]; }\n"
    "  st.global.u32 [%o], %d; ret; }\n";

void stack_limit(void) {
    driver_open();
    CUhandle function = kernel_of(RECURSIVE, "run");
    size_t limit = 0;
    ASK(cuCtxSetLimit, 0, (size_t)8192);
    ASK(cuCtxGetLimit, &limit, 0);
    if (limit < 8192) fail("the limit is %zu after it was set to 8192", limit);
    uint32_t seen[64], depth = 30, right = 0;
    for (uint32_t left = 0; left <= depth; left++) right += 24 * left + 276;
    CUdeviceptr out = device_bytes(sizeof seen);
    void *arguments[] = {&out, &depth};
    start(function, 1, 64, NULL, arguments);
    to_host(seen, out, sizeof seen);
    for (int i = 0; i < 64; i++)
        if (seen[i] != right) fail("thread %d has %u, not %u", i, seen[i], right);
    well(NULL);
}

static const char *SAMPLER =
    HEAD
    ".visible .entry look(.param .u64 texture, .param .u64 out) {\n"
    "  .reg .u64 %t, %o, %w; .reg .u32 %i; .reg .f32 %x, %y, %a, %b, %c, %d;\n"
    "  ld.param.u64 %t, [texture]; ld.param.u64 %o, [out]; mov.u32 %i, %tid.x;\n"
    "  mul.wide.u32 %w, %i, 4; add.u64 %o, %o, %w;\n"
    // The point (i / 2 + 0.75, i / 4 + 1).
    "  cvt.rn.f32.u32 %x, %i; mul.f32 %y, %x, 0f3E800000; add.f32 %y, %y, 0f3F800000;\n"
    "  mul.f32 %x, %x, 0f3F000000; add.f32 %x, %x, 0f3F400000;\n"
    "  tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [%t, {%x, %y}]; st.global.f32 [%o], %a; ret; }\n";

// CUDA_MEMCPY2D, version 2: from host memory to an array.
struct copy_2d {
    size_t from_x, from_y;
    int from_kind;
    const void *from;
    CUdeviceptr from_device;
    CUhandle from_array;
    size_t from_pitch, to_x, to_y;
    int to_kind;
    void *to;
    CUdeviceptr to_device;
    CUhandle to_array;
    size_t to_pitch, width, height;
};

struct array_descriptor {
    size_t width, height;
    int format;
    unsigned channels;
};

struct resource {
    int kind;
    CUhandle array;
    char rest[128];
};

struct sampling {
    int beyond[3], filter;
    unsigned rest[64];
};

void texture(void) {
    enum { WIDE = 32, HIGH = 16 };
    float picture[HIGH][WIDE], seen[32];
    driver_open();
    CUhandle function = kernel_of(SAMPLER, "look");
    for (int y = 0; y < HIGH; y++)
        for (int x = 0; x < WIDE; x++) picture[y][x] = 2 * x + 100 * y;
    struct array_descriptor shape = {WIDE, HIGH, 0x20, 1};
    struct copy_2d copy = {.from_kind = 1, .from = picture, .from_pitch = sizeof picture[0], .to_kind = 3,
                           .width = sizeof picture[0], .height = HIGH};
    ASK(cuArrayCreate_v2, &copy.to_array, &shape);
    ASK(cuMemcpy2D_v2, &copy);
    struct resource resource = {.kind = 0, .array = copy.to_array};
    struct sampling sampling = {.beyond = {1, 1, 1}, .filter = 1};
    uint64_t made;
    ASK(cuTexObjectCreate, &made, &resource, &sampling, NULL);
    CUdeviceptr out = device_bytes(sizeof seen);
    void *arguments[] = {&made, &out};
    start(function, 1, 32, NULL, arguments);
    to_host(seen, out, sizeof seen);
    for (int i = 0; i < 32; i++) {
        float x = i / 2.0f + 0.25f, y = i / 4.0f + 0.5f, right = 2 * x + 100 * y;
        if (fabsf(seen[i] - right) > 0.5f) fail("point %d is %g, not %g", i, seen[i], right);
    }
    ASK(cuTexObjectDestroy, made);
    well(NULL);
}

static const char *SMALL =
    ".version 8.1\n.target sm_89\n.address_size 64\n"
    ".visible .entry convert(.param .u64 from, .param .u64 bits, .param .u64 back) {\n"
    "  .reg .u64 %f, %b, %k, %w; .reg .u32 %i; .reg .b32 %h; .reg .f32 %x, %z; .reg .b16 %s;\n"
    "  ld.param.u64 %f, [from]; ld.param.u64 %b, [bits]; ld.param.u64 %k, [back]; mov.u32 %i, %tid.x;\n"
    "  mul.wide.u32 %w, %i, 4; add.u64 %f, %f, %w; add.u64 %b, %b, %w; add.u64 %k, %k, %w;\n"
    "  ld.global.f32 %x, [%f]; mov.f32 %z, 0f3F800000;\n"
    // The first operand goes to the upper half.
    "  cvt.rn.satfinite.e4m3x2.f32 %s, %z, %x; cvt.u32.u16 %h, %s; st.global.b32 [%b], %h;\n"
    "  cvt.rn.f16x2.e4m3x2 %h, %s; st.global.b32 [%k], %h; ret; }\n";

// The value of e4m3 bits: 4 of exponent, 3 of fraction. 0x7f and 0xff are NaN.
static float of_e4m3(int bits) {
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    float size = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
    return bits & 0x80 ? -size : size;
}

// The value of the bits of a half; no infinity or NaN.
static float of_half(int bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24);
    return bits & 0x8000 ? -size : size;
}

void fp8(void) {
    driver_open();
    CUhandle function = kernel_of(SMALL, "convert");
    float from[256];
    uint32_t bits[256], back[256];
    for (int i = 0; i < 256; i++) from[i] = (i & 127) == 127 ? (i & 128 ? -1000 : 1000) : of_e4m3(i);
    CUdeviceptr in = to_device(from, sizeof from), out = device_bytes(sizeof bits), again = device_bytes(sizeof back);
    void *arguments[] = {&in, &out, &again};
    start(function, 1, 256, NULL, arguments);
    to_host(bits, out, sizeof bits);
    to_host(back, again, sizeof back);
    for (uint32_t i = 0; i < 256; i++) {
        // What is too large becomes the largest value; 1 stands in the upper half.
        uint32_t right = 0x3800 | ((i & 127) == 127 ? i - 1 : i);
        if (bits[i] != right) fail("%g is 0x%04x, not 0x%04x", from[i], bits[i], right);
        if (of_half(back[i] & 0xffff) != of_e4m3(right & 0xff) || back[i] >> 16 != 0x3c00)
            fail("0x%02x comes back as %g, not %g", right & 0xff, of_half(back[i] & 0xffff), of_e4m3(right & 0xff));
    }
    well(NULL);
}

void cufft(void) { skip("cuFFT needs the program of nvcc"); }
