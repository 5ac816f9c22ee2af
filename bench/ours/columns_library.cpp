// What `bench columns` measures in C++: Arrow's own builder and buffers on one pool or another.
//
// The pools are those of the libarrow that pyarrow brings, and Plasmon's with the same interface.
// Every pool is looked at through a WatchedPool, which counts what really moved: the address of
// each buffer before and after it grew.
#include <arrow/api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "store_pool.h"

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

// The memory that this process has in sight, in bytes.
int64_t resident_bytes() {
    long pages = 0;
    if (FILE *file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
        std::fclose(file);
    }
    return static_cast<int64_t>(pages) * sysconf(_SC_PAGESIZE);
}

class WatchedPool : public arrow::MemoryPool {
public:
    explicit WatchedPool(arrow::MemoryPool *pool) : pool_(pool) {}

    using arrow::MemoryPool::Allocate;
    using arrow::MemoryPool::Free;
    using arrow::MemoryPool::Reallocate;

    arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t **out) override {
        return pool_->Allocate(size, alignment, out);
    }
    arrow::Status Reallocate(int64_t before, int64_t after, int64_t alignment,
                             uint8_t **ptr) override {
        const uint8_t *address = *ptr;
        ARROW_RETURN_NOT_OK(pool_->Reallocate(before, after, alignment, ptr));
        if (before > 0 && after > before) {
            growths += 1;
            if (*ptr != address) {
                moves += 1;
                moved_bytes += before;
            }
        }
        return arrow::Status::OK();
    }
    void Free(uint8_t *buffer, int64_t size, int64_t alignment) override {
        pool_->Free(buffer, size, alignment);
    }
    int64_t bytes_allocated() const override { return pool_->bytes_allocated(); }
    int64_t max_memory() const override { return pool_->max_memory(); }
    int64_t total_bytes_allocated() const override { return pool_->total_bytes_allocated(); }
    int64_t num_allocations() const override { return pool_->num_allocations(); }
    std::string backend_name() const override { return pool_->backend_name(); }

    int64_t growths = 0, moves = 0, moved_bytes = 0;

private:
    arrow::MemoryPool *pool_;
};

arrow::Result<arrow::MemoryPool *> pool_named(const std::string &name) {
    arrow::MemoryPool *pool = nullptr;
    if (name == "system") return arrow::system_memory_pool();
    if (name == "jemalloc") {
        ARROW_RETURN_NOT_OK(arrow::jemalloc_memory_pool(&pool));
        return pool;
    }
    if (name == "mimalloc") {
        ARROW_RETURN_NOT_OK(arrow::mimalloc_memory_pool(&pool));
        return pool;
    }
    return arrow::Status::Invalid("no pool is called ", name);
}

}  // namespace

// The times and counts of one run; bench/ours/columns_library.py has the same fields.
struct Measurement {
    double total_ns;  // until the memory was given back
    double build_ns;  // until the array was there, or the buffer had its last size
    int64_t resident_bytes;
    int64_t resident_after_bytes;
    int64_t growths;
    int64_t moves;
    int64_t moved_bytes;
};

namespace {

void note(const WatchedPool &pool, Measurement *out) {
    out->growths = pool.growths;
    out->moves = pool.moves;
    out->moved_bytes = pool.moved_bytes;
}

arrow::Status append_int64(arrow::MemoryPool *inner, int64_t bytes, int64_t chunk_bytes,
                           Measurement *out) {
    const std::vector<int64_t> chunk(chunk_bytes / sizeof(int64_t), 42);
    WatchedPool pool(inner);
    const auto begin = Clock::now();
    std::shared_ptr<arrow::Array> array;
    {
        arrow::Int64Builder builder(&pool);
        for (int64_t done = 0; done < bytes; done += chunk_bytes) {
            ARROW_RETURN_NOT_OK(
                builder.AppendValues(chunk.data(), static_cast<int64_t>(chunk.size())));
        }
        ARROW_RETURN_NOT_OK(builder.Finish(&array));
    }
    out->build_ns = nanoseconds_since(begin);
    if (array->length() * static_cast<int64_t>(sizeof(int64_t)) != bytes) {
        return arrow::Status::Invalid("the array has ", array->length(), " values");
    }
    const auto looked = Clock::now();
    out->resident_bytes = resident_bytes();
    const double looking_ns = nanoseconds_since(looked);
    array.reset();
    out->total_ns = nanoseconds_since(begin) - looking_ns;
    out->resident_after_bytes = resident_bytes();
    note(pool, out);
    return arrow::Status::OK();
}

arrow::Status double_buffer(arrow::MemoryPool *inner, int64_t from_bytes, int64_t to_bytes,
                            bool touched, Measurement *out) {
    WatchedPool pool(inner);
    const auto begin = Clock::now();
    uint8_t *buffer = nullptr;
    int64_t bytes = from_bytes, written = 0;
    ARROW_RETURN_NOT_OK(pool.Allocate(bytes, &buffer));
    for (;;) {
        if (touched) std::memset(buffer + written, 7, bytes - written);
        written = bytes;
        if (bytes >= to_bytes) break;
        ARROW_RETURN_NOT_OK(pool.Reallocate(bytes, bytes * 2, &buffer));
        bytes *= 2;
    }
    out->build_ns = nanoseconds_since(begin);
    if (touched && (buffer[0] != 7 || buffer[bytes - 1] != 7)) {
        return arrow::Status::Invalid("growing lost what was written");
    }
    const auto looked = Clock::now();
    out->resident_bytes = resident_bytes();
    const double looking_ns = nanoseconds_since(looked);
    pool.Free(buffer, bytes);
    out->total_ns = nanoseconds_since(begin) - looking_ns;
    out->resident_after_bytes = resident_bytes();
    note(pool, out);
    return arrow::Status::OK();
}

// Errors as text for the caller; "" when there is none.
const char *message_of(const arrow::Status &status) {
    thread_local std::string text;
    text = status.ok() ? "" : status.ToString();
    return text.c_str();
}

}  // namespace

extern "C" {

// A pool of Arrow by name, or Plasmon's from its table of functions; null when there is none.
void *bench_pool(const char *name, const void *plasmon_api) {
    if (plasmon_api != nullptr) return plasmon::make_pool(plasmon_api);
    auto found = pool_named(name);
    return found.ok() ? static_cast<void *>(*found) : nullptr;
}

const char *bench_append_int64(void *pool, int64_t bytes, int64_t chunk_bytes, Measurement *out) {
    auto *inner = static_cast<arrow::MemoryPool *>(pool);
    return message_of(append_int64(inner, bytes, chunk_bytes, out));
}

const char *bench_double_buffer(void *pool, int64_t from_bytes, int64_t to_bytes, int touched,
                                Measurement *out) {
    auto *inner = static_cast<arrow::MemoryPool *>(pool);
    return message_of(double_buffer(inner, from_bytes, to_bytes, touched != 0, out));
}
}
