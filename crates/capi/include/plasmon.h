/*
 * Plasmon: immutable objects in shared memory, read in place.
 *
 * Every function that can fail returns a plasmon_code: PLASMON_OK, or one of the other
 * constants below, whose numbers are the same in every language. plasmon_error_message() then says,
 * for this thread, what happened, to which object, and what can be done.
 *
 * Ownership: an object returned through a `**` parameter belongs to the caller, and is given back
 * with the function that the comment names; after a failure it is NULL. Ids and structs are
 * copied. Strings and arrays that are passed in are only read during the call.
 *
 * Threads: a store may be used by all threads at once. A writer, a scope, a builder, a buffer, a
 * listing, a pending wait and a subscription belong to one thread at a time; buffers may be cloned
 * for others. Pieces and places are only read, by all threads, until one of them frees them.
 *
 * Null: a null pointer where the comment does not allow one is PLASMON_BAD_REQUEST, never a crash.
 * Giving back a null pointer is allowed and does nothing.
 *
 * Fork: a child may go on using a store; it gets its own connection at the first use. Buffers
 * inherited through a fork stay readable as long as the parent holds them. Giving back an inherited
 * scope does nothing to the parent's, and is PLASMON_FORKED.
 */
#ifndef PLASMON_H
#define PLASMON_H

#include <stddef.h>
#include <stdint.h>

#include "plasmon_pool.h"

/* The version of this header, the same as of everything else. */
#define PLASMON_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Codes ------------------------------------------------------------------------------- */

typedef int32_t plasmon_code;

#define PLASMON_OK 0
#define PLASMON_ABSENT 1              /* the object does not exist */
#define PLASMON_EXISTS 2              /* the id is taken */
#define PLASMON_STORE_FULL 3          /* no room, and no object can be evicted or spilled */
#define PLASMON_QUOTA_EXCEEDED 4      /* this client would own more than its quota */
#define PLASMON_TIMED_OUT 5           /* the timeout has passed */
#define PLASMON_CREATOR_DIED 6        /* the creator died before sealing the object */
#define PLASMON_DELETED 7             /* the object was deleted */
#define PLASMON_EVICTED 8             /* the object was evicted to make room */
#define PLASMON_NOT_SEALED 9          /* the object exists but is not sealed yet */
#define PLASMON_ALREADY_SEALED 10     /* the object is sealed already */
#define PLASMON_IN_USE 11             /* the object is in use */
#define PLASMON_TOO_LARGE 12          /* larger than this store could ever hold */
#define PLASMON_TOO_MANY_PINS 13      /* this client holds the maximum number of pins */
#define PLASMON_NOT_PERMITTED 14      /* this client is not permitted to do that */
#define PLASMON_BAD_REQUEST 15        /* the call is invalid */
#define PLASMON_VERSION_MISMATCH 16   /* the two sides speak different versions */
#define PLASMON_DISCONNECTED 17       /* the daemon is gone and did not come back in time */
#define PLASMON_NOT_OWNER 18          /* only the creator may do that */
#define PLASMON_CORRUPT 19            /* the stored bytes do not match their checksum */
#define PLASMON_LIMIT_REACHED 20      /* a limit of the store is reached */
#define PLASMON_OUT_OF_DESCRIPTORS 21 /* a process has no free file descriptors */
#define PLASMON_IO 22                 /* the operating system returned an error */
#define PLASMON_ALREADY_RUNNING 23    /* a daemon already serves this socket */
#define PLASMON_CANCELLED 24          /* the operation was cancelled */
#define PLASMON_UNSUPPORTED 25        /* this store or this build does not support that */
#define PLASMON_FORKED 26             /* the object belongs to the parent process */
#define PLASMON_UNREACHABLE 27        /* the pool, or all nodes with a copy, cannot be reached */
#define PLASMON_NOT_ENOUGH_NODES 28   /* fewer live nodes than the object needs */

/* Not failures: they set no error message. */
#define PLASMON_END (-1)              /* the iteration has ended */
#define PLASMON_PENDING (-2)          /* the wait has no answer yet */

/* A fault of this library was caught at its border; please report it. */
#define PLASMON_PANIC (-3)

/* The stable name of a code ("store_full"), "ok" for 0; "unknown" for other numbers. Static. */
const char *plasmon_code_key(plasmon_code code);
/* Advice on what the caller can do. Static; empty for PLASMON_OK and unknown numbers. */
const char *plasmon_code_advice(plasmon_code code);

/* ---- Ids --------------------------------------------------------------------------------- */

#define PLASMON_ID_BYTES 20
#define PLASMON_ID_TEXT_BYTES 41 /* 40 hexadecimal digits and the terminating zero */

typedef struct plasmon_id {
    uint8_t bytes[PLASMON_ID_BYTES];
} plasmon_id;

/* The id of a name. `name_space` may be null for the default one. */
plasmon_code plasmon_id_of_name(const char *name_space, const char *name, plasmon_id *id);
/* Writes the id in hexadecimal digits and a terminating zero. */
plasmon_code plasmon_id_to_text(const plasmon_id *id, char text[PLASMON_ID_TEXT_BYTES]);
/* Reads an id in hexadecimal digits. */
plasmon_code plasmon_id_from_text(const char *text, plasmon_id *id);

/* ---- Errors ------------------------------------------------------------------------------ */

/* The facts of the last failure on this thread. */
typedef struct plasmon_error {
    plasmon_code code;
    int32_t os_error; /* errno of the system call that failed, or 0 */
    int32_t has_id;   /* whether the failure is about one object */
    plasmon_id id;
    uint64_t wanted;  /* in the unit of the matter (bytes, count), or 0 */
    uint64_t found;
} plasmon_error;

/* The last failure on this thread in words: what happened, to which object, what can be done.
 * Valid until the next call on this thread; empty before the first failure. */
const char *plasmon_error_message(void);
/* The facts of that failure; code is PLASMON_OK before the first failure. */
plasmon_code plasmon_error_facts(plasmon_error *facts);

/* ---- Connecting -------------------------------------------------------------------------- */

typedef struct plasmon_store plasmon_store;

/* Fill it with plasmon_connect_options_init, then change the fields that should differ. */
typedef struct plasmon_connect_options {
    size_t struct_bytes;          /* set by init: older programs go on working */
    const char *socket;           /* null: the socket of this user's store */
    const char *name;             /* this client's name in listings; null: the program's */
    int32_t without_channel;      /* 1: no shared ring and ledger, everything through the
                                     socket; pins last only as long as the connection */
    int64_t connect_timeout_ms;   /* how long to try while no daemon listens; 0 tries once */
    int64_t reconnect_timeout_ms; /* how long to try after the daemon went away */
    uint32_t copy_threads;        /* threads for large copies; 0: the number of cores, up to 6 */
    int64_t request_timeout_ms;   /* how long the daemon may leave a request unanswered */
    int64_t owner;                /* the user (uid) whose store is meant, or PLASMON_ANY_OWNER */
} plasmon_connect_options;

/* This user's own store or root's, or one whose socket only its owner can have put there. */
#define PLASMON_ANY_OWNER (-1)

typedef struct plasmon_setting {
    const char *key;   /* as in docs/settings.md, such as "capacity_bytes" */
    const char *value; /* such as "4g" */
} plasmon_setting;

typedef struct plasmon_start_options {
    size_t struct_bytes;
    const char *daemon;              /* null: $PLASMON_DAEMON, beside the program, $PATH */
    const plasmon_setting *settings; /* may be null when there are none */
    size_t settings_count;
    int64_t timeout_ms;              /* how long to wait until the store answers */
} plasmon_start_options;

plasmon_code plasmon_connect_options_init(plasmon_connect_options *options);
plasmon_code plasmon_start_options_init(plasmon_start_options *options);

/* Connects to a running store. Null options are the defaults. End with plasmon_store_close. */
plasmon_code plasmon_connect(const plasmon_connect_options *options, plasmon_store **store);
/* Connects to the running store, or starts one that ends with its last client. */
plasmon_code plasmon_connect_or_start(const plasmon_connect_options *options,
                                      const plasmon_start_options *start,
                                      plasmon_store **store);
/* Starts a store that runs until it is stopped; PLASMON_ALREADY_RUNNING if there is one. `pid` may
 * be null. */
plasmon_code plasmon_start(const plasmon_start_options *options, uint32_t *pid);
/* Writes the socket's path of this user's store with a terminating zero; PLASMON_LIMIT_REACHED when
 * `bytes` is too small. */
plasmon_code plasmon_default_socket(char *text, size_t bytes);

/* Gives the store back. Buffers, writers and scopes keep the connection until they are given
 * back. */
void plasmon_store_close(plasmon_store *store);
/* Ends the connection now, also for other threads: waits end, later calls fail, buffers stay
 * readable. */
plasmon_code plasmon_store_disconnect(plasmon_store *store);
/* Stops the daemon; for the owner of the store. */
plasmon_code plasmon_store_shutdown(plasmon_store *store);

#define PLASMON_LEVEL_SHARED 0
#define PLASMON_LEVEL_LEASED 1
#define PLASMON_LEVEL_STRICT 2

typedef struct plasmon_store_facts {
    uint64_t capacity_bytes;
    int32_t level;     /* PLASMON_LEVEL_: how sealed objects are protected */
    int32_t read_only; /* 1 when this client may only read */
} plasmon_store_facts;

plasmon_code plasmon_store_describe(const plasmon_store *store, plasmon_store_facts *facts);
/* The metrics of the store as JSON. End with plasmon_text_free. */
plasmon_code plasmon_status_json(const plasmon_store *store, char **json);
/* The connected clients as JSON. End with plasmon_text_free. */
plasmon_code plasmon_clients_json(const plasmon_store *store, char **json);
void plasmon_text_free(char *text);

/* ---- Writing ----------------------------------------------------------------------------- */

#define PLASMON_POLICY_KEEP 0  /* never dropped silently */
#define PLASMON_POLICY_CACHE 1 /* may be evicted, the least recently used first */

/* The type of value that the bytes of an object hold; the store does not interpret it. */
#define PLASMON_TAG_RAW 0
#define PLASMON_TAG_ARROW_STREAM 1
#define PLASMON_TAG_NDARRAY 2
#define PLASMON_TAG_PYTHON 3
#define PLASMON_TAG_COMPOSITE 4

/* Fill it with plasmon_put_options_init, then change the fields that should differ. */
typedef struct plasmon_put_options {
    size_t struct_bytes;
    const plasmon_id *id;      /* null: the id of the name, or a new one */
    const char *name_space;    /* null: the default one */
    const char *name;          /* null: no name */
    const void *metadata;      /* may be null when there is none */
    size_t metadata_bytes;
    int32_t policy;            /* PLASMON_POLICY_ */
    uint8_t tag;               /* PLASMON_TAG_ or your own */
    int64_t ttl_ms;            /* how long it lives once sealed; 0: no limit */
    const plasmon_id *members; /* objects that it is made of; they live as long; may be null */
    size_t members_count;
    int32_t owned;             /* 1: deleted with the last composite that holds it */
    int32_t strict;            /* 1: the kernel refuses every write once it is sealed */
    int32_t replace;           /* 1: an object of this id or name is replaced in one step */
    uint8_t copies;            /* of an object in a pool: how many nodes keep it, 1 to 8; 0: two, or
                                  one if it has no name */
    uint8_t copies_min;        /* with how many it is accepted where there are no more nodes, 1 to
                                  copies; 0: half of copies, rounded up */
    uint8_t pool;              /* 1: it belongs to the pool of the store, without a name */
    uint8_t ack;               /* PLASMON_ACK_ */
    int32_t placement;         /* of an object in a pool: PLASMON_PLACEMENT_ */
    int32_t storage;           /* PLASMON_STORAGE_; CACHE for an object in a pool */
    int32_t owns_members;      /* of an object in a pool, 1: its members are deleted when it is */
} plasmon_put_options;

/* When a put of an object in a pool returns. */
#define PLASMON_ACK_DEFAULT 0 /* COPIES if it has a name or more than one copy, else LOCAL */
#define PLASMON_ACK_LOCAL 1   /* at once; plasmon_settle waits. Not for objects with a name */
#define PLASMON_ACK_COPIES 2  /* when the pool has accepted it, with its copies */

/* Where the copies of an object in a pool are. */
#define PLASMON_PLACEMENT_LOCAL 0  /* the first on this node, the others on other nodes */
#define PLASMON_PLACEMENT_SPREAD 1 /* all on other nodes; this node's may then be evicted */

/* What an object in a pool survives. */
#define PLASMON_STORAGE_MEMORY 0  /* the loss of all nodes with a copy but one */
#define PLASMON_STORAGE_CACHE 1   /* nothing: its one copy, on this node, may be evicted */
#define PLASMON_STORAGE_DURABLE 2 /* a loss of power: in the log of the store, whose setting
                                   * durable_dir names its folder, before the put returns. In a
                                   * pool each of the copies is in the log of its node */

typedef struct plasmon_part {
    const void *data; /* may be null when there are no bytes */
    size_t bytes;
} plasmon_part;

plasmon_code plasmon_put_options_init(plasmon_put_options *options);

/* A new unique id. */
plasmon_code plasmon_new_id(const plasmon_store *store, plasmon_id *id);

/* Copies bytes into a new object. Null options are the defaults; `id` may be null. If the options
 * give neither an id nor a name, it returns before the store has accepted the object; plasmon_flush
 * and the next call that writes report a refusal.
 *
 * An object whose name begins with @, such as "@prod:sales" (or whose name space does), belongs to
 * the pool of the store: the call returns when `copies` nodes have it. PLASMON_UNSUPPORTED when the
 * store belongs to no pool, and with ttl_ms, owned, replace, or members that are not of the pool;
 * PLASMON_NOT_ENOUGH_NODES; PLASMON_UNREACHABLE. With `copies` or `copies_min` any other object is
 * PLASMON_BAD_REQUEST. */
plasmon_code plasmon_put(const plasmon_store *store, const void *data, size_t bytes,
                         const plasmon_put_options *options, plasmon_id *id);
/* The same, gathered from several parts with one copy. */
plasmon_code plasmon_put_parts(const plasmon_store *store, const plasmon_part *parts, size_t count,
                               const plasmon_put_options *options, plasmon_id *id);
/* Returns when everything submitted so far is applied; reports refusals. */
plasmon_code plasmon_flush(const plasmon_store *store);

typedef struct plasmon_writer plasmon_writer;

/* Reserves an object for writing in place. End with plasmon_writer_seal or plasmon_writer_abort. */
plasmon_code plasmon_create(const plasmon_store *store, uint64_t data_bytes,
                            const plasmon_put_options *options, plasmon_writer **writer);
/* The address to write the data to, 64-byte aligned; null for a null writer. */
void *plasmon_writer_data(plasmon_writer *writer);
uint64_t plasmon_writer_data_bytes(const plasmon_writer *writer);
/* The address of the options' metadata, which may be overwritten with the same number of bytes. */
void *plasmon_writer_metadata(plasmon_writer *writer);
uint64_t plasmon_writer_metadata_bytes(plasmon_writer *writer);
plasmon_code plasmon_writer_id(const plasmon_writer *writer, plasmon_id *id);
/* Makes the object immutable and visible, and gives the writer back, also on failure. `id` may be
 * null. The pointers into the object are invalid from here on. */
plasmon_code plasmon_writer_seal(plasmon_writer *writer, plasmon_id *id);
/* Gives the object up, and the writer back. */
plasmon_code plasmon_writer_abort(plasmon_writer *writer);

/* Deletes objects. `outcomes`, if not null, gets one code for each. Buffers of them stay valid. */
plasmon_code plasmon_delete(const plasmon_store *store, const plasmon_id *ids, size_t count,
                            plasmon_code *outcomes);
/* Waits until the pool has accepted objects that were put on this node; -1 waits without a limit.
 * `outcomes` gets one code for each: PLASMON_OK; why the pool refused it, and it has ended, such as
 * PLASMON_NOT_ENOUGH_NODES or PLASMON_STORE_FULL; PLASMON_TIMED_OUT, or PLASMON_UNREACHABLE where
 * there is no pool daemon to ask, after which it is still there and may be settled later. */
plasmon_code plasmon_settle(const plasmon_store *store, const plasmon_id *ids, size_t count,
                            int64_t timeout_ms, plasmon_code *outcomes);
/* Deletes an object without waiting for the answer; a refusal is reported by a later call. */
plasmon_code plasmon_delete_soon(const plasmon_store *store, const plasmon_id *id);
/* Evicts objects with policy cache until this many bytes are free; the last two may be null. */
plasmon_code plasmon_evict(const plasmon_store *store, uint64_t bytes, uint64_t *evicted_bytes,
                           uint64_t *evicted_objects);
/* Marks objects as recently used. */
plasmon_code plasmon_touch(const plasmon_store *store, const plasmon_id *ids, size_t count);
/* Limits the bytes that this client may own; 0 for no limit. */
plasmon_code plasmon_set_quota(const plasmon_store *store, uint64_t bytes);

/* Objects that stay together or not at all. */
typedef struct plasmon_scope plasmon_scope;

/* A scope of these ids, to be opened before the first of their objects is put. `ids` may be null
 * when there are none. Objects that this store makes under one of the ids are found as any others
 * until the scope ends; then all of them stay or all of them are deleted. They are deleted also
 * when the store is disconnected and when the process ends before, however it ends. What others
 * have or put under one of the ids stays, and so does what a composite holds.
 * PLASMON_LIMIT_REACHED, without adding any, when all open scopes of the store would have more than
 * 8192 ids. End with plasmon_scope_publish or plasmon_scope_abort. */
plasmon_code plasmon_scope_open(const plasmon_store *store, const plasmon_id *ids, size_t count,
                                plasmon_scope **scope);
/* Adds ids, with the same limit. */
plasmon_code plasmon_scope_add(const plasmon_scope *scope, const plasmon_id *ids, size_t count);
/* The objects stay, all of them from the same moment on. Gives the scope back, also on failure; the
 * objects are deleted then. */
plasmon_code plasmon_scope_publish(plasmon_scope *scope);
/* Deletes the objects, and gives the scope back, also on failure; they are deleted then as soon as
 * the daemon is there again, at the latest when the process ends. */
plasmon_code plasmon_scope_abort(plasmon_scope *scope);

/* ---- Reading ----------------------------------------------------------------------------- */

#define PLASMON_FOREVER (-1) /* as a timeout; so is every negative number */
#define PLASMON_NOW 0

typedef struct plasmon_buffer plasmon_buffer;

/* Pins an object, waiting for it to be sealed. End with plasmon_buffer_release. */
plasmon_code plasmon_get(const plasmon_store *store, const plasmon_id *id, int64_t timeout_ms,
                         plasmon_buffer **buffer);
/* Many objects with one timeout: each gets a buffer and PLASMON_OK, or null and its code. The call
 * itself fails only if the request could not be made. */
plasmon_code plasmon_get_many(const plasmon_store *store, const plasmon_id *ids, size_t count,
                              int64_t timeout_ms, plasmon_buffer **buffers, plasmon_code *codes);

/* The object's bytes, valid and unchanged until the buffer is released; read-only memory. */
const void *plasmon_buffer_data(const plasmon_buffer *buffer);
uint64_t plasmon_buffer_data_bytes(const plasmon_buffer *buffer);
const void *plasmon_buffer_metadata(const plasmon_buffer *buffer);
uint64_t plasmon_buffer_metadata_bytes(const plasmon_buffer *buffer);
plasmon_code plasmon_buffer_id(const plasmon_buffer *buffer, plasmon_id *id);
uint8_t plasmon_buffer_tag(const plasmon_buffer *buffer);
/* The number of this incarnation of the object, never used again. */
uint64_t plasmon_buffer_serial(const plasmon_buffer *buffer);
/* A second handle of the same pin. */
plasmon_code plasmon_buffer_clone(const plasmon_buffer *buffer, plasmon_buffer **clone);
void plasmon_buffer_release(plasmon_buffer *buffer);

/* BLAKE3 of the object's data and metadata. */
plasmon_code plasmon_digest(const plasmon_store *store, const plasmon_id *id, uint8_t digest[32]);

/* ---- Arrow data -------------------------------------------------------------------------- */

/* Arrow's C data interface, https://arrow.apache.org/docs/format/CDataInterface.html: any library
 * for Arrow declares and fills these. */
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

/* The Arrow data of an object, in place: `stream` is filled, and its arrays keep the object pinned
 * until they are released. The buffer may be released before. */
plasmon_code plasmon_read_arrow(const plasmon_buffer *buffer, struct ArrowArrayStream *stream);

/* Puts a table. The stream is consumed and released, also on failure. Buffers that lie in the pool,
 * which may be null, are shared in place if they are most of the table; `copied_bytes`, if not
 * null, gets the number of bytes that were copied. */
plasmon_code plasmon_put_arrow(const plasmon_store *store, const plasmon_pool_api *pool,
                               struct ArrowArrayStream *stream,
                               const plasmon_put_options *options, plasmon_id *id,
                               uint64_t *copied_bytes);

/* A pool of buffers in the store, see plasmon_pool.h; all threads may use it. The table is the
 * caller's; its last reference ends with api->close(api->pool), when no buffer is in use any more.
 * It outlives the store's handle. PLASMON_UNSUPPORTED at level strict, which seals no memory that
 * is still mapped for writing. */
plasmon_code plasmon_pool_open(const plasmon_store *store, plasmon_pool_api *api);

typedef struct plasmon_builder plasmon_builder;

#define PLASMON_ROWS (-1) /* as a column: all columns of a table at once */

/* A builder in the store: for a table if the schema is one of structures ("+s"), else for one
 * column, which is column 0. Its buffers grow in shared memory without ever moving. The schema is
 * consumed and released, also on failure. `bytes_hint` is the expected size of each buffer, or 0 if
 * it is not known. `timeout_ms`, not negative, is how long an append waits for room while the
 * store is full. PLASMON_UNSUPPORTED for a type without a builder: the message names the one to use
 * instead. One thread at a time may use a builder; a forked child of its process may not
 * (PLASMON_FORKED). End with plasmon_builder_free. */
plasmon_code plasmon_builder_open(const plasmon_store *store, struct ArrowSchema *schema,
                                  uint64_t bytes_hint, int64_t timeout_ms,
                                  plasmon_builder **builder);
/* Appends an array of the column's type, or with PLASMON_ROWS an array of structures. It is
 * consumed and released, also on failure. All of it is appended or nothing: earlier values stay as
 * they are, also when the store is full (PLASMON_STORE_FULL: make room and try again, finish the
 * builder as it is, or free it). */
plasmon_code plasmon_builder_append(plasmon_builder *builder, int64_t column,
                                    struct ArrowArray *array);
/* Appends values of fixed width as they are in memory. */
plasmon_code plasmon_builder_append_values(plasmon_builder *builder, int64_t column,
                                           const void *values, size_t bytes);
plasmon_code plasmon_builder_append_nulls(plasmon_builder *builder, int64_t column, size_t count);
/* How many values the column has; with PLASMON_ROWS, those of the shortest. */
plasmon_code plasmon_builder_length(const plasmon_builder *builder, int64_t column,
                                    uint64_t *length);
/* Seals the column or table as an object, without a copy. The options may be null. The builder is
 * empty afterwards and may be used again; if the name is taken (PLASMON_EXISTS), it is unchanged.
 * For an object of a pool the values are copied. */
plasmon_code plasmon_builder_finish(plasmon_builder *builder, const plasmon_put_options *options,
                                    plasmon_id *id);
/* Gives the builder back, and drops values that were not finished. */
void plasmon_builder_free(plasmon_builder *builder);

/* ---- Waiting ----------------------------------------------------------------------------- */

#define PLASMON_STATE_ABSENT 0
#define PLASMON_STATE_CREATING 1
#define PLASMON_STATE_SEALED 2
#define PLASMON_STATE_SPILLED 3
#define PLASMON_STATE_EVICTED 4
#define PLASMON_STATE_DELETED 5
#define PLASMON_STATE_CREATOR_DIED 6
#define PLASMON_STATE_CORRUPT 7
#define PLASMON_STATE_REMOTE 8
#define PLASMON_STATE_UNREACHABLE 9

/* Whether the object is sealed, in memory or spilled: 1 or 0. */
plasmon_code plasmon_contains(const plasmon_store *store, const plasmon_id *id, int32_t *contained);
/* One PLASMON_STATE_ for each id. */
plasmon_code plasmon_states(const plasmon_store *store, const plasmon_id *ids, size_t count,
                            int32_t *states);
/* Waits until `wanted` of the objects (0: all) are readable or their fate is known, or the time has
 * passed; writes their states at that moment. */
plasmon_code plasmon_wait(const plasmon_store *store, const plasmon_id *ids, size_t count,
                          size_t wanted, int64_t timeout_ms, int32_t *states);

typedef struct plasmon_pending plasmon_pending;

/* Starts such a wait, for at most 1024 objects, and returns. End with plasmon_pending_free. */
plasmon_code plasmon_wait_start(const plasmon_store *store, const plasmon_id *ids, size_t count,
                                size_t wanted, int64_t timeout_ms, plasmon_pending **pending);
/* A descriptor that is readable when the answer is there; it belongs to the wait. -1 for null. */
int plasmon_pending_fd(const plasmon_pending *pending);
/* The answer, once: PLASMON_OK and one state for each id; PLASMON_PENDING before it is there, and
 * PLASMON_END after it was taken. */
plasmon_code plasmon_pending_poll(plasmon_pending *pending, int32_t *states);
/* Ends the wait early; it is answered with the states of that moment. */
plasmon_code plasmon_pending_cancel(const plasmon_pending *pending);
void plasmon_pending_free(plasmon_pending *pending);

/* ---- Looking around ---------------------------------------------------------------------- */

#define PLASMON_NAME_TEXT_BYTES 257
#define PLASMON_NAMESPACE_TEXT_BYTES 65

typedef struct plasmon_info {
    plasmon_id id;
    int32_t state;  /* PLASMON_STATE_ */
    int32_t policy; /* PLASMON_POLICY_ */
    int32_t level;  /* PLASMON_LEVEL_ */
    int32_t owned;
    uint8_t tag;
    uint8_t durable; /* 1: it outlives a loss of power */
    uint64_t data_bytes;
    uint64_t metadata_bytes;
    uint64_t created_ms;   /* milliseconds since 1970 */
    uint64_t construct_ms; /* how long its creator took to seal it */
    uint64_t expires_ms;   /* milliseconds since 1970, 0: never */
    uint32_t creator_pid;  /* 0 when that is no longer known */
    uint32_t pins;
    uint32_t holders;
    char name_space[PLASMON_NAMESPACE_TEXT_BYTES];
    char name[PLASMON_NAME_TEXT_BYTES]; /* empty: no name */
} plasmon_info;

/* PLASMON_ABSENT when nothing is known under the id. */
plasmon_code plasmon_stat(const plasmon_store *store, const plasmon_id *id, plasmon_info *info);

typedef struct plasmon_listing plasmon_listing;

/* The objects named in a namespace and with a prefix; null means any. End with
 * plasmon_listing_free. */
plasmon_code plasmon_list(const plasmon_store *store, const char *name_space, const char *prefix,
                          plasmon_listing **listing);
/* The next object, or PLASMON_END. */
plasmon_code plasmon_listing_next(plasmon_listing *listing, plasmon_info *info);
void plasmon_listing_free(plasmon_listing *listing);

typedef struct plasmon_subscription plasmon_subscription;

typedef struct plasmon_notification {
    int32_t lost;        /* 1: notices were dropped here, and the rest is empty but the count */
    uint64_t lost_count; /* UINT64_MAX when it is not known, because the daemon was restarted */
    plasmon_id id;
    int32_t state;       /* PLASMON_STATE_: the object's new state */
    uint64_t data_bytes;
    uint64_t metadata_bytes;
} plasmon_notification;

/* Notifications about objects, on a separate connection. End with plasmon_subscription_free. */
plasmon_code plasmon_subscribe(const plasmon_store *store, const char *name_space,
                               const char *prefix, plasmon_subscription **subscription);
/* The next one, or PLASMON_TIMED_OUT. */
plasmon_code plasmon_subscription_next(plasmon_subscription *subscription, int64_t timeout_ms,
                                       plasmon_notification *notification);
/* A descriptor that is readable when a notification came. Before each wait on it, call
 * plasmon_subscription_next with PLASMON_NOW until it returns PLASMON_TIMED_OUT, and ask for the
 * descriptor again. -1 for null. */
int plasmon_subscription_fd(const plasmon_subscription *subscription);
void plasmon_subscription_free(plasmon_subscription *subscription);

/* ---- The pool of the store: many machines ------------------------------------------------ */

typedef struct plasmon_range {
    uint64_t offset;
    uint64_t bytes;
} plasmon_range;

typedef struct plasmon_pieces plasmon_pieces;

/* Reads ranges of an object's data, wherever it is: of one on another node of the pool nothing else
 * comes here, and of one in this store nothing is copied. All are of the same incarnation.
 * PLASMON_BAD_REQUEST, and nothing is read, when one is not within the data. `timeout_ms` is how
 * long an object that does not exist is waited for. End with plasmon_pieces_free. */
plasmon_code plasmon_pool_read(const plasmon_store *store, const plasmon_id *id,
                               const plasmon_range *ranges, size_t count, int64_t timeout_ms,
                               plasmon_pieces **pieces);
/* Where the bytes of each range are, in the order of the ranges: read-only memory, valid and
 * unchanged until the pieces are freed, as this array is. The address of an empty range is null.
 * Null for null, and without ranges. */
const plasmon_part *plasmon_pieces_parts(const plasmon_pieces *pieces);
void plasmon_pieces_free(plasmon_pieces *pieces);

/* Where an object of the pool is in its life. */
#define PLASMON_STANDING_ABSENT 0      /* there is none */
#define PLASMON_STANDING_PENDING 1     /* it was put, and is not accepted yet */
#define PLASMON_STANDING_LIVE 2        /* it exists */
#define PLASMON_STANDING_DEAD 3        /* it was deleted, and there may be copies */
#define PLASMON_STANDING_LOST 4        /* no node has a copy */
#define PLASMON_STANDING_UNREACHABLE 5 /* the pool cannot be asked now, or none with a copy is up */

/* Where an object of the pool is. Made by the library: later versions may add fields at its end. */
typedef struct plasmon_place {
    int32_t standing;    /* PLASMON_STANDING_ */
    int32_t has_record;  /* 1 when the pool has a record of it; else the fields from here on but
                            `primary` are empty */
    uint64_t data_bytes;
    uint64_t metadata_bytes;
    uint8_t copies;      /* how many copies it should have */
    uint8_t copies_min;  /* with how many a put is content */
    const char *primary; /* the node that keeps the record; null when it is not known */
    const char *origin;  /* the node where it was made, or null */
    const char *const *holders; /* the nodes that keep a copy */
    size_t holders_count;
    const char *const *caches;  /* other nodes that may have one */
    size_t caches_count;
} plasmon_place;

/* Asks the pool daemon of this machine where an object is. PLASMON_BAD_REQUEST for an id of no
 * pool; PLASMON_UNREACHABLE when no pool daemon answers. End with plasmon_place_free. */
plasmon_code plasmon_pool_where(const plasmon_store *store, const plasmon_id *id,
                                plasmon_place **place);
void plasmon_place_free(plasmon_place *place);

/* Adopts a namespace: when this process ends, however it ends, or disconnects its store, all
 * objects named in it are deleted, also those of other programs, and later ones are refused as
 * PLASMON_CANCELLED until a program adopts it again. They may have `bytes_max` bytes together, and
 * more is refused as PLASMON_QUOTA_EXCEEDED; 0 for no limit. Adopting it again changes the limit.
 *
 * A namespace that begins with @ is adopted on all nodes of the pool, also for the case that this
 * machine dies. Its limit is of all nodes together, each copy that is kept counted; they may exceed
 * it by what they put in about a second, after which they hear of each other. This waits until all
 * live nodes know it: PLASMON_UNREACHABLE after some seconds; adopt it again then. PLASMON_EXISTS
 * when another program has adopted it; PLASMON_IN_USE while a node has not deleted what an earlier
 * one left. */
plasmon_code plasmon_adopt(const plasmon_store *store, const char *name_space, uint64_t bytes_max);
/* Ends the adoption, as the end of this process would. */
plasmon_code plasmon_end_adoption(const plasmon_store *store, const char *name_space);

/* A place in a region: memory of the pool that programs on all nodes write by its address, until
 * one of them seals it. From then on it is an object with this id, which nothing changes. */
typedef struct plasmon_address {
    plasmon_id id;
    uint64_t offset; /* may be added to */
} plasmon_address;

#define PLASMON_ADDRESS_TEXT_BYTES 62 /* an id, a plus, 20 digits and the terminating zero */

/* Writes an address as text, for other programs, with a terminating zero. */
plasmon_code plasmon_address_to_text(const plasmon_address *address,
                                     char text[PLASMON_ADDRESS_TEXT_BYTES]);
/* Reads an address. */
plasmon_code plasmon_address_from_text(const char *text, plasmon_address *address);

/* Fill it with plasmon_region_options_init, then change the fields that should differ. */
typedef struct plasmon_region_options {
    size_t struct_bytes;
    const char *node;   /* the name of the node where it is; null: this one */
    uint8_t copies;     /* how many nodes keep the sealed object; 0: one */
    uint8_t copies_min; /* with how many the seal is content; 0: half of copies, rounded up */
} plasmon_region_options;

plasmon_code plasmon_region_options_init(plasmon_region_options *options);

/* Allocates so many bytes on a node of the pool; null options are the defaults. What is not sealed
 * ends with this process, when it disconnects its store, and with the pool daemon of either node.
 * Bytes that are not written may be any. */
plasmon_code plasmon_pool_allocate(const plasmon_store *store, uint64_t bytes,
                                   const plasmon_region_options *options,
                                   plasmon_address *address);
/* Writes bytes into a region. PLASMON_BAD_REQUEST, and nothing is written, when they are not within
 * it; PLASMON_ALREADY_SEALED; PLASMON_CREATOR_DIED when the program that allocated it ended. A
 * write that has returned is in the sealed object; one that fails in the middle
 * (PLASMON_UNREACHABLE) may have written some of its bytes. */
plasmon_code plasmon_pool_write(const plasmon_store *store, const plasmon_address *address,
                                const void *data, size_t bytes);
/* As plasmon_pool_read, with offsets from an address on. PLASMON_NOT_SEALED before the region is
 * sealed, or PLASMON_TIMED_OUT after `timeout_ms`. */
plasmon_code plasmon_pool_read_at(const plasmon_store *store, const plasmon_address *address,
                                  const plasmon_range *ranges, size_t count, int64_t timeout_ms,
                                  plasmon_pieces **pieces);
/* Makes the region of an address an object, with the id of the address. With several copies it
 * returns when the pool has accepted it; else plasmon_settle waits, on the region's node. */
plasmon_code plasmon_pool_seal(const plasmon_store *store, const plasmon_address *address);
/* Ends the region of an address, and deletes the object if it is sealed. */
plasmon_code plasmon_pool_free(const plasmon_store *store, const plasmon_address *address);

#ifdef __cplusplus
}
#endif

#endif
