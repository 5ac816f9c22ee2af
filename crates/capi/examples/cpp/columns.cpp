// Threads fill columns in shared memory; another thread waits for each and adds it up in place.
#include "plasmon.hpp"

#undef NDEBUG
#include <cassert>
#include <iostream>
#include <numeric>
#include <thread>

namespace {

constexpr std::size_t rows = 100'000;
constexpr int columns = 8;

plasmon::Id fill(const plasmon::Store &store, int column) {
    plasmon::Writer writer = store.create(rows * sizeof(std::int64_t));
    auto *values = writer.data<std::int64_t>();
    std::iota(values, values + rows, column);
    return writer.seal();
}

std::int64_t sum(const plasmon::Buffer &buffer) {
    const auto *values = buffer.data<std::int64_t>();
    return std::accumulate(values, values + buffer.bytes() / sizeof(std::int64_t), std::int64_t{0});
}

} // namespace

int main() {
    const plasmon::Store store = plasmon::Store::connect();

    std::vector<plasmon::Id> ids(columns);
    std::vector<std::thread> threads;
    for (int column = 0; column < columns; column++) {
        threads.emplace_back([&, column] { ids[column] = fill(store, column); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const std::int64_t first = std::int64_t{rows} * (rows - 1) / 2;
    for (int column = 0; column < columns; column++) {
        const plasmon::Buffer buffer = store.get(ids[column]);
        assert(sum(buffer) == first + column * std::int64_t{rows});
    }

    // An unsealed writer that goes out of scope leaves nothing.
    { plasmon::Writer forgotten = store.create(1000); }

    // Objects of a scope stay together, or go with it.
    const std::vector<plasmon::Id> parts = {store.new_id(), store.new_id()};
    for (const bool complete : {false, true}) {
        plasmon::Scope scope = store.scope(parts);
        plasmon_put_options options;
        plasmon::check(plasmon_put_options_init(&options));
        for (const plasmon::Id &part : parts) {
            options.id = &part;
            store.put("a part", &options);
        }
        if (complete) {
            scope.publish();
        }
    }
    assert(store.contains(parts[0]) && store.contains(parts[1]));

    // A buffer outlives the object's deletion; an error is an exception with its code.
    const plasmon::Id id = store.put("kept by its reader");
    const plasmon::Buffer kept = store.get(id, plasmon::now);
    store.erase(id);
    assert(kept.text() == "kept by its reader" && !store.contains(id));
    try {
        store.get(id, plasmon::now);
        assert(!"a deleted object cannot be got");
    } catch (const plasmon::Error &error) {
        assert(error.code() == PLASMON_DELETED);
        assert(std::string(error.what()).find(plasmon::to_string(id)) != std::string::npos);
    }
    store.flush();
    std::cout << "columns: ok\n";
}
