// Plasmon for C++17: handles that release themselves, errors as exceptions.
//
// A thin layer over plasmon.h. Copy it into your program and change it as you like.
#pragma once

#include <plasmon.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plasmon {

// The message and code of a failed call.
class Error : public std::runtime_error {
  public:
    explicit Error(plasmon_code code) : std::runtime_error(plasmon_error_message()), code_(code) {}
    plasmon_code code() const noexcept { return code_; }

  private:
    plasmon_code code_;
};

inline void check(plasmon_code code) {
    if (code != PLASMON_OK) {
        throw Error(code);
    }
}

using Id = plasmon_id;
using Timeout = std::optional<std::chrono::milliseconds>;
inline constexpr Timeout forever = std::nullopt;
inline constexpr Timeout now = std::chrono::milliseconds(0);

inline std::int64_t milliseconds(Timeout timeout) {
    return timeout ? static_cast<std::int64_t>(timeout->count()) : PLASMON_FOREVER;
}


inline std::string to_string(const Id &id) {
    char text[PLASMON_ID_TEXT_BYTES];
    check(plasmon_id_to_text(&id, text));
    return text;
}

// A pinned object: its bytes stay for as long as any copy of the buffer does.
class Buffer {
  public:
    explicit Buffer(plasmon_buffer *buffer) : buffer_(buffer, plasmon_buffer_release) {}

    template <typename T = std::byte>
    const T *data() const noexcept {
        return static_cast<const T *>(plasmon_buffer_data(buffer_.get()));
    }
    std::size_t bytes() const noexcept { return plasmon_buffer_data_bytes(buffer_.get()); }
    std::string_view text() const noexcept { return {data<char>(), bytes()}; }
    std::string_view metadata() const noexcept {
        return {static_cast<const char *>(plasmon_buffer_metadata(buffer_.get())),
                static_cast<std::size_t>(plasmon_buffer_metadata_bytes(buffer_.get()))};
    }

  private:
    std::shared_ptr<plasmon_buffer> buffer_;
};

// An object under construction; aborted when it goes out of scope unsealed.
class Writer {
  public:
    explicit Writer(plasmon_writer *writer) : writer_(writer, plasmon_writer_abort) {}

    template <typename T = std::byte>
    T *data() noexcept {
        return static_cast<T *>(plasmon_writer_data(writer_.get()));
    }
    std::size_t bytes() const noexcept { return plasmon_writer_data_bytes(writer_.get()); }
    Id seal() {
        Id id;
        check(plasmon_writer_seal(writer_.release(), &id));
        return id;
    }

  private:
    std::unique_ptr<plasmon_writer, plasmon_code (*)(plasmon_writer *)> writer_;
};

// Objects of some ids that stay together or not at all: deleted when it is destroyed unpublished.
class Scope {
  public:
    explicit Scope(plasmon_scope *scope) : scope_(scope, plasmon_scope_abort) {}

    // Before the objects are put.
    void add(const std::vector<Id> &ids) const {
        check(plasmon_scope_add(scope_.get(), ids.data(), ids.size()));
    }
    void publish() { check(plasmon_scope_publish(scope_.release())); }
    void abort() { check(plasmon_scope_abort(scope_.release())); }

  private:
    std::unique_ptr<plasmon_scope, plasmon_code (*)(plasmon_scope *)> scope_;
};

// A connection, shared by all threads and all copies.
class Store {
  public:
    // The running store of this user, or one that ends with its last client.
    static Store connect() {
        plasmon_store *store = nullptr;
        check(plasmon_connect_or_start(nullptr, nullptr, &store));
        return Store(store);
    }

    Id new_id() const {
        Id id;
        check(plasmon_new_id(store_.get(), &id));
        return id;
    }
    Id put(std::string_view bytes, const plasmon_put_options *options = nullptr) const {
        Id id;
        check(plasmon_put(store_.get(), bytes.data(), bytes.size(), options, &id));
        return id;
    }
    Writer create(std::uint64_t bytes, const plasmon_put_options *options = nullptr) const {
        plasmon_writer *writer = nullptr;
        check(plasmon_create(store_.get(), bytes, options, &writer));
        return Writer(writer);
    }
    Scope scope(const std::vector<Id> &ids = {}) const {
        plasmon_scope *scope = nullptr;
        check(plasmon_scope_open(store_.get(), ids.data(), ids.size(), &scope));
        return Scope(scope);
    }
    Buffer get(const Id &id, Timeout timeout = now) const {
        plasmon_buffer *buffer = nullptr;
        check(plasmon_get(store_.get(), &id, milliseconds(timeout), &buffer));
        return Buffer(buffer);
    }
    bool contains(const Id &id) const {
        std::int32_t contained = 0;
        check(plasmon_contains(store_.get(), &id, &contained));
        return contained != 0;
    }
    void erase(const Id &id) const {
        plasmon_code outcome = PLASMON_OK;
        check(plasmon_delete(store_.get(), &id, 1, &outcome));
        if (outcome != PLASMON_OK) {
            throw std::out_of_range("no object " + to_string(id));
        }
    }
    void flush() const { check(plasmon_flush(store_.get())); }

  private:
    explicit Store(plasmon_store *store) : store_(store, plasmon_store_close) {}
    std::shared_ptr<plasmon_store> store_;
};

} // namespace plasmon
