// The program of traced.py in CUDA C++, by the runtime.
//
//   traced [--requests 1000] [--parents none|set] [--until FILE] [--pause MS]
//
// A request is 1 to 4 launches and a wait: a copy back, or a synchronization and then a copy as a request of its own.
// The result of each is checked. With `--parents set` each has a parent by warploom_set_traceparent. With --until it
// goes on until that file exists. With --pause it sleeps in each request before it waits. Prints one JSON object as
// traced.py does.

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

constexpr int COUNT = 4096, BLOCK = 128, LAUNCHES = 4;

__global__ void step(unsigned *values, unsigned number, int count) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < count) values[i] = values[i] * 3 + number;
}

struct Request {
    int launches;
    int64_t began, ended;
    std::string ids;
};

static int64_t now() {
    timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

class Work {
public:
    std::vector<Request> told;

    Work(int (*set_traceparent)(const char *), unsigned pause)
        : set_traceparent(set_traceparent), pause(pause), expected(COUNT) {
        for (int i = 0; i < COUNT; i++) expected[i] = i;
        check(cudaMalloc(&values, COUNT * sizeof(unsigned)));
        check(cudaMemcpy(values, expected.data(), COUNT * sizeof(unsigned), cudaMemcpyHostToDevice));
        check(cudaMallocHost(&out, COUNT * sizeof(unsigned)));
    }

    // Makes a request, and checks what it computed. False if the device is lost.
    bool request(cudaError_t *error) {
        unsigned numbers[LAUNCHES], launches = 1 + draw() % LAUNCHES;
        bool synchronizes = draw() % 2;
        for (unsigned i = 0; i < launches; i++) numbers[i] = draw();
        int64_t began = now();
        std::string ids = begin();
        for (unsigned i = 0; i < launches; i++) step<<<COUNT / BLOCK, BLOCK>>>(values, numbers[i], COUNT);
        if ((*error = cudaGetLastError())) return false;
        if (!synchronizes && (*error = copy())) return false;
        usleep(1000 * pause);
        if ((*error = cudaDeviceSynchronize())) return false;
        if (set_traceparent) set_traceparent(nullptr);
        // What the driver knows to be done it does not wait for: then the request ends here.
        if (synchronizes && ((*error = copy()) || (*error = cudaDeviceSynchronize()))) return false;
        int64_t ended = now();
        for (unsigned i = 0; i < launches; i++)
            for (unsigned &it : expected) it = it * 3 + numbers[i];
        if (memcmp(out, expected.data(), COUNT * sizeof(unsigned))) {
            fprintf(stderr, "request %zu is wrong\n", told.size());
            exit(1);
        }
        told.push_back({static_cast<int>(launches), began, ended, ids});
        return true;
    }

private:
    int (*set_traceparent)(const char *);
    unsigned pause;
    std::mt19937 draw;
    std::mt19937_64 ids{std::random_device{}()};
    std::vector<unsigned> expected;
    unsigned *values, *out;

    static void check(cudaError_t error) {
        if (!error) return;
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }

    cudaError_t copy() {
        return cudaMemcpyAsync(out, values, COUNT * sizeof(unsigned), cudaMemcpyDeviceToHost);
    }

    // Sets a parent of its own, if there are to be some. Its ids as a part of a JSON object.
    std::string begin() {
        if (!set_traceparent) return "";
        char trace[33], span[17], text[128];
        snprintf(trace, sizeof trace, "%016llx%016llx", (unsigned long long)ids(), (unsigned long long)ids());
        snprintf(span, sizeof span, "%016llx", (unsigned long long)ids());
        snprintf(text, sizeof text, "00-%s-%s-01", trace, span);
        if (set_traceparent(text)) exit(3);
        snprintf(text, sizeof text, ", \"trace\": \"%s\", \"span\": \"%s\"", trace, span);
        return text;
    }
};

// The function of Warploom's driver, which the runtime has loaded.
static int (*function())(const char *) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, "warploom_set_traceparent") : nullptr;
    if (!found) exit(3);
    return reinterpret_cast<int (*)(const char *)>(found);
}

int main(int count, char **given) {
    size_t requests = 1000, pause = 0;
    const char *until = nullptr;
    int (*set_traceparent)(const char *) = nullptr;
    for (int i = 1; i + 1 < count; i += 2) {
        std::string name = given[i], value = given[i + 1];
        if (name == "--requests") requests = std::stoul(value);
        else if (name == "--pause") pause = std::stoul(value);
        else if (name == "--until") until = given[i + 1];
        else if (name == "--parents" && value == "set") set_traceparent = function();
        else if (name != "--parents" || value != "none") return 2;
    }
    Work work(set_traceparent, pause);
    cudaError_t error = cudaSuccess;
    // The first request begins with the first op of all, and is not counted.
    if (!work.request(&error)) return 1;
    work.told.clear();
    // Warploom's clock may differ from this one by less.
    usleep(10000);
    int64_t since = now();
    while (until ? access(until, F_OK) : work.told.size() < requests)
        if (!work.request(&error)) break;
    std::string lost = error ? "\"" + std::string(cudaGetErrorString(error)) + "\"" : "null";
    printf("{\"since\": %lld, \"lost\": %s, \"requests\": [", (long long)since, lost.c_str());
    for (size_t i = 0; i < work.told.size(); i++) {
        const Request &it = work.told[i];
        printf("%s{\"thread\": 0, \"launches\": %d, \"began\": %lld, \"ended\": %lld%s}", i ? ", " : "", it.launches,
               (long long)it.began, (long long)it.ended, it.ids.c_str());
    }
    printf("]}\n");
    return 0;
}
