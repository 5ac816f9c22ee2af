/*
 * What programs with MPI do with HDF5, checked by every process.
 *
 *     ranks FILE collective|independent [killed]
 *
 * Each process writes its rows of a column and of a compound, its elements of a column that are
 * spread among those of the others, its rows of a matrix, and of a column that grows; after the
 * file was closed and opened again each reads what its neighbour wrote. With `killed` they end by
 * SIGKILL when the file was flushed, and is still open.
 */
#include <hdf5.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1000, WIDTH = 7 };

typedef struct {
    int64_t id;
    float x;
} Particle;

static int me, processes;

/* What fails has to fail in all processes: one that goes on would wait for the others. MPI_Abort
 * would hide such a fault, and mpiexec may lose what was printed before it. */
static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "ranks: process %d: %s failed\n", me, what);
        MPI_Finalize();
        exit(1);
    }
}

static hid_t particle_type(void) {
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(Particle));
    H5Tinsert(type, "id", HOFFSET(Particle, id), H5T_NATIVE_INT64);
    H5Tinsert(type, "x", HOFFSET(Particle, x), H5T_NATIVE_FLOAT);
    return type;
}

/* Everything that a process needs to know of one dataset. */
typedef struct {
    const char *name;
    hid_t type;
    size_t bytes;
    int dimensions;
    int spread;
} Kind;

static hid_t file_space(const Kind *kind, int owner) {
    hsize_t all[2] = {(hsize_t)ROWS * processes, WIDTH};
    hid_t space = H5Screate_simple(kind->dimensions, all, NULL);
    hsize_t start[2] = {(hsize_t)owner * (kind->spread ? 1 : ROWS), 0};
    hsize_t stride[2] = {kind->spread ? processes : 1, 1}, count[2] = {ROWS, WIDTH};
    if (owner >= 0)
        must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL) >= 0, "select");
    return space;
}

static void fill(const Kind *kind, int owner, void *values) {
    for (int row = 0; row < ROWS; row++) {
        int64_t number = kind->spread ? owner + (int64_t)row * processes : owner * ROWS + row;
        if (!strcmp(kind->name, "particles"))
            ((Particle *)values)[row] = (Particle){.id = number, .x = number / 2.0f};
        else if (kind->dimensions == 2)
            for (int at = 0; at < WIDTH; at++)
                ((float *)values)[row * WIDTH + at] = number * 10.0f + at;
        else
            ((float *)values)[row] = number;
    }
}

static hid_t memory_space(const Kind *kind) {
    return H5Screate_simple(kind->dimensions, (hsize_t[]){ROWS, WIDTH}, NULL);
}

static void write_one(hid_t file, const Kind *kind, hid_t transfer) {
    hid_t whole = file_space(kind, -1);
    hid_t set =
        H5Dcreate(file, kind->name, kind->type, whole, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    must(set >= 0, "H5Dcreate");
    void *values = calloc(ROWS, kind->bytes);
    fill(kind, me, values);
    hid_t mine = file_space(kind, me), memory = memory_space(kind);
    must(H5Dwrite(set, kind->type, memory, mine, transfer, values) >= 0, "H5Dwrite");
    hid_t scalar = H5Screate(H5S_SCALAR);
    hid_t unit = H5Acreate(set, "unit", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
    must(H5Awrite(unit, H5T_NATIVE_INT, &(int){42}) >= 0, "H5Awrite");
    H5Aclose(unit);
    H5Sclose(scalar);
    H5Sclose(memory);
    H5Sclose(mine);
    H5Sclose(whole);
    free(values);
    must(H5Dclose(set) >= 0, "H5Dclose");
}

/* A dataset that all make longer before each writes its rows. */
static void write_growing(hid_t file, const Kind *kind, hid_t transfer) {
    hsize_t now = ROWS, most = H5S_UNLIMITED, later = (hsize_t)ROWS * processes, chunk = ROWS;
    hid_t space = H5Screate_simple(1, &now, &most), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 1, &chunk);
    hid_t set =
        H5Dcreate(file, kind->name, kind->type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    must(set >= 0, "H5Dcreate");
    must(H5Dset_extent(set, &later) >= 0, "H5Dset_extent");
    void *values = calloc(ROWS, kind->bytes);
    fill(kind, me, values);
    hid_t mine = file_space(kind, me), memory = memory_space(kind);
    must(H5Dwrite(set, kind->type, memory, mine, transfer, values) >= 0, "H5Dwrite");
    H5Sclose(memory);
    H5Sclose(mine);
    H5Sclose(space);
    H5Pclose(creation);
    free(values);
    must(H5Dclose(set) >= 0, "H5Dclose");
}

static void check_one(hid_t file, const Kind *kind, hid_t transfer) {
    int neighbour = (me + 1) % processes;
    void *wanted = calloc(ROWS, kind->bytes), *found = calloc(ROWS, kind->bytes);
    fill(kind, neighbour, wanted);
    hid_t set = H5Dopen(file, kind->name, H5P_DEFAULT);
    must(set >= 0, "H5Dopen");
    hid_t theirs = file_space(kind, neighbour), memory = memory_space(kind);
    must(H5Dread(set, kind->type, memory, theirs, transfer, found) >= 0, "H5Dread");
    must(!memcmp(wanted, found, ROWS * kind->bytes), kind->name);
    H5Sclose(memory);
    H5Sclose(theirs);
    free(wanted);
    free(found);
    must(H5Dclose(set) >= 0, "H5Dclose");
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    must(count == 3 || count == 4, "reading the arguments");
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
    int together = !strcmp(words[2], "collective");
    H5Pset_dxpl_mpio(transfer, together ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    H5Pset_all_coll_metadata_ops(access, together);
    const Kind kinds[] = {
        {"x", H5T_NATIVE_FLOAT, 4, 1, 0},
        {"spread", H5T_NATIVE_FLOAT, 4, 1, 1},
        {"matrix", H5T_NATIVE_FLOAT, 4 * WIDTH, 2, 0},
        {"particles", particle_type(), sizeof(Particle), 1, 0},
        {"grows", H5T_NATIVE_FLOAT, 4, 1, 0},
    };
    hid_t file = H5Fcreate(words[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    must(file >= 0, "H5Fcreate");
    for (int at = 0; at < 4; at++)
        write_one(file, &kinds[at], transfer);
    write_growing(file, &kinds[4], transfer);
    /* One that goes again, so that its data has to go, too. */
    write_one(file, &(Kind){"gone", H5T_NATIVE_FLOAT, 4, 1, 0}, transfer);
    must(H5Ldelete(file, "gone", H5P_DEFAULT) >= 0, "H5Ldelete");
    if (count == 4) {
        must(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    must(H5Fclose(file) >= 0, "H5Fclose");
    file = H5Fopen(words[1], H5F_ACC_RDONLY, access);
    must(file >= 0, "H5Fopen");
    for (int at = 0; at < 5; at++)
        check_one(file, &kinds[at], transfer);
    must(H5Fclose(file) >= 0, "H5Fclose");
    H5Pclose(transfer);
    H5Pclose(access);
    if (me == 0)
        printf("%d processes agree\n", processes);
    MPI_Finalize();
    return 0;
}
