/*
 * The I/O kernels of VPIC and BD-CATS: particles of eight properties, 32 bytes, written and read
 * through HDF5's interface alone. It knows nothing of Arrow or Plasmon.
 *
 *     kernel OPERATION FILE PARTICLES MEMBERS REPETITIONS [sync] [collective] [keep]
 *
 * Compiled with -DRANKS every process of an MPI program has its part of the particles. Prints the
 * nanoseconds of each repetition, from opening the file to the return of H5Fclose; one repetition
 * before them is not counted. The file is deleted at the end, unless it is to be kept.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef RANKS
#include <mpi.h>
#endif

enum { PROPERTIES = 8, MEMBERS_MAX = 64, STRIDE = 64, BLOCK = 16 };

/* What is selected of every dataset. */
enum part { FULL, PARTIAL, STRIDED };

static const char *const PROPERTY[PROPERTIES] = {"x", "y", "z", "id_1", "id_2", "px", "py", "pz"};

static struct {
    const char *path;
    hsize_t particles; /* of this process */
    hsize_t first;     /* before them, of the others */
    hsize_t all;
    int members; /* of a record */
    bool sync, keep;
    hid_t access, transfer;
    int me, processes;
} run;

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "kernel: %s failed\n", what);
        exit(1);
    }
}

static void meet(void) {
#ifdef RANKS
    MPI_Barrier(MPI_COMM_WORLD);
#endif
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static const char *member_name(int at) {
    static char name[16];
    if (at < PROPERTIES)
        return PROPERTY[at];
    snprintf(name, sizeof name, "more_%d", at);
    return name;
}

static hid_t number(int at) { return at == 3 ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT; }

static void put(char *place, int at, hsize_t particle) {
    int32_t value = (int32_t)(particle % 1000) + at;
    float real = (float)value;
    memcpy(place, at == 3 ? (void *)&value : (void *)&real, 4);
}

/* A record type of all members, or of one of them alone. */
static hid_t record(int only) {
    hid_t type = H5Tcreate(H5T_COMPOUND, only < 0 ? 4 * (size_t)run.members : 4);
    for (int at = 0; at < run.members; at++)
        if (only < 0 || only == at)
            H5Tinsert(type, member_name(at), only < 0 ? 4 * (size_t)at : 0, number(at));
    return type;
}

/* What is selected of a dataset in the file; how much that is. */
static hid_t select_part(enum part part, hsize_t *count) {
    hid_t space = H5Screate_simple(1, &run.all, NULL);
    hsize_t start = run.first, blocks = run.particles / STRIDE, stride = STRIDE, block = BLOCK;
    *count = part == FULL ? run.particles : part == PARTIAL ? run.particles / 2 : blocks * block;
    if (part == STRIDED)
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &blocks, &block);
    else
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, count, NULL);
    return space;
}

static hid_t create_file(void) {
    hid_t file = H5Fcreate(run.path, H5F_ACC_TRUNC, H5P_DEFAULT, run.access);
    must(file >= 0, "H5Fcreate");
    return file;
}

static void close_file(hid_t file) {
    must(H5Fclose(file) >= 0, "H5Fclose");
    if (run.sync) {
        int file = open(run.path, O_RDONLY);
        must(file >= 0 && fsync(file) == 0 && close(file) == 0, "fsync");
    }
}

static void write_one(hid_t group, const char *name, hid_t type, const void *values) {
    hsize_t count;
    hid_t space = select_part(FULL, &count), memory = H5Screate_simple(1, &count, NULL);
    hid_t set = H5Dcreate(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    must(set >= 0, "H5Dcreate");
    must(H5Dwrite(set, type, memory, space, run.transfer, values) >= 0, "H5Dwrite");
    must(H5Dclose(set) >= 0, "H5Dclose");
    H5Sclose(memory);
    H5Sclose(space);
}

static void write_columns(char **columns) {
    hid_t file = create_file();
    hid_t group = H5Gcreate(file, "Timestep_0", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int at = 0; at < PROPERTIES; at++)
        write_one(group, PROPERTY[at], number(at), columns[at]);
    H5Gclose(group);
    close_file(file);
}

static void write_records(char **memory) {
    hid_t file = create_file(), type = record(-1);
    write_one(file, "particles", type, memory[0]);
    H5Tclose(type);
    close_file(file);
}

static void read_one(hid_t file, const char *name, hid_t type, enum part part, void *values) {
    hsize_t count;
    hid_t set = H5Dopen(file, name, H5P_DEFAULT), space = select_part(part, &count);
    must(set >= 0, "H5Dopen");
    hid_t memory = H5Screate_simple(1, &count, NULL);
    must(H5Dread(set, type, memory, space, run.transfer, values) >= 0, "H5Dread");
    H5Sclose(memory);
    H5Sclose(space);
    must(H5Dclose(set) >= 0, "H5Dclose");
}

static hid_t open_file(void) {
    hid_t file = H5Fopen(run.path, H5F_ACC_RDONLY, run.access);
    must(file >= 0, "H5Fopen");
    return file;
}

static void read_columns(char **columns, enum part part) {
    char name[32];
    hid_t file = open_file();
    for (int at = 0; at < PROPERTIES; at++) {
        snprintf(name, sizeof name, "Timestep_0/%s", PROPERTY[at]);
        read_one(file, name, number(at), part, columns[at]);
    }
    must(H5Fclose(file) >= 0, "H5Fclose");
}

static void read_records(char **memory, int only) {
    hid_t file = open_file(), type = record(only);
    read_one(file, "particles", type, FULL, memory[0]);
    H5Tclose(type);
    must(H5Fclose(file) >= 0, "H5Fclose");
}

/* Whether the last particle that was read is the one that was written. */
static void check(char **memory, const char *operation) {
    char wanted[4];
    bool records = strstr(operation, "records"), member = strstr(operation, "member");
    hsize_t last = run.particles - 1, at = last;
    if (strstr(operation, "partial"))
        at = last = run.particles / 2 - 1;
    if (strstr(operation, "strided")) {
        at = run.particles / STRIDE * BLOCK - 1;
        last = (run.particles / STRIDE - 1) * STRIDE + BLOCK - 1;
    }
    put(wanted, 5, run.first + last);
    const char *found = records  ? memory[0] + 4 * ((size_t)run.members * at + 5)
                        : member ? memory[0] + 4 * at
                                 : memory[5] + 4 * at;
    must(!memcmp(wanted, found, 4), "comparing what was read");
}

/* The program's particles: one column each, or one block of records. */
static char **particles(bool records) {
    char **memory = calloc(PROPERTIES, sizeof(char *));
    int members = records ? run.members : PROPERTIES;
    size_t bytes = 4 * (size_t)run.particles;
    for (int at = 0; at < (records ? 1 : PROPERTIES); at++)
        must((memory[at] = malloc(records ? bytes * members : bytes)), "malloc");
    for (hsize_t row = 0; row < run.particles; row++)
        for (int at = 0; at < members; at++)
            put(records ? memory[0] + 4 * (members * row + at) : memory[at] + 4 * row, at,
                run.first + row);
    return memory;
}

/* Takes away what the repetition before has left. */
static void tidy(void) {
    bool there = access(run.path, F_OK) == 0;
    meet();
    if (there)
        must(H5Fdelete(run.path, run.access) >= 0, "H5Fdelete");
    meet();
}

static void once(const char *operation, char **memory) {
    bool records = strstr(operation, "records"), member = strstr(operation, "member");
    if (!strncmp(operation, "write", 5))
        (records ? write_records : write_columns)(memory);
    else if (records || member)
        read_records(memory, member ? 5 : -1);
    else
        read_columns(memory, strstr(operation, "partial")   ? PARTIAL
                             : strstr(operation, "strided") ? STRIDED
                                                            : FULL);
}

static void measure(const char *operation, int repetitions) {
    bool writes = !strncmp(operation, "write", 5);
    bool records = strstr(operation, "records"), member = strstr(operation, "member");
    char **memory = particles(records || member);
    if (!writes) {
        tidy();
        (records || member ? write_records : write_columns)(memory);
        memset(memory[0], 0, 4 * run.particles);
    }
    for (int turn = -1; turn < repetitions; turn++) {
        if (writes)
            tidy();
        meet();
        long long begin = now_ns();
        once(operation, memory);
        meet();
        long long end = now_ns();
        if (turn >= 0 && run.me == 0) {
            /* The end time is for the process that waits for the file. */
            printf("%lld %lld\n", end - begin, end);
            fflush(stdout);
        }
    }
    if (!writes)
        check(memory, operation);
    if (!run.keep)
        tidy();
}

int main(int count, char **words) {
    must(count >= 6, "reading the arguments");
    run.access = H5P_DEFAULT, run.transfer = H5P_DEFAULT, run.processes = 1;
#ifdef RANKS
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.me);
    MPI_Comm_size(MPI_COMM_WORLD, &run.processes);
    run.access = H5Pcreate(H5P_FILE_ACCESS);
    run.transfer = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_fapl_mpio(run.access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
#endif
    run.path = words[2];
    run.particles = strtoull(words[3], NULL, 10) / run.processes;
    run.all = run.particles * run.processes;
    run.first = run.particles * run.me;
    run.members = atoi(words[4]);
    must(run.members >= PROPERTIES && run.members <= MEMBERS_MAX, "reading the members");
    for (int at = 6; at < count; at++) {
        run.sync = run.sync || !strcmp(words[at], "sync");
        run.keep = run.keep || !strcmp(words[at], "keep");
#ifdef RANKS
        if (!strcmp(words[at], "collective"))
            H5Pset_dxpl_mpio(run.transfer, H5FD_MPIO_COLLECTIVE);
#endif
    }
    measure(words[1], atoi(words[5]));
#ifdef RANKS
    MPI_Finalize();
#endif
    return 0;
}
