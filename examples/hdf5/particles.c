/*
 * An ordinary C program that uses HDF5. It knows nothing of Arrow or Plasmon.
 *
 *     cc particles.c -lhdf5 -lm -o particles && ./particles particles.h5
 *
 * With HDF5_PLUGIN_PATH and HDF5_VOL_CONNECTOR set (docs/guides/hdf5.md) its datasets become Arrow
 * files. HDF5 1.14.3 or later is needed for that.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

typedef struct {
    int32_t id;
    double energy;
} Particle;

static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "particles: %s failed\n", what);
        exit(1);
    }
}

static hid_t particle_type(void) {
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(Particle));
    must(H5Tinsert(type, "id", HOFFSET(Particle, id), H5T_NATIVE_INT32) >= 0, "H5Tinsert");
    must(H5Tinsert(type, "energy", HOFFSET(Particle, energy), H5T_NATIVE_DOUBLE) >= 0, "H5Tinsert");
    return type;
}

/* A dataset of `stored` elements from values of `type`. */
static void write_dataset(hid_t place, const char *name, hid_t stored, hid_t type, int rank,
                          const hsize_t *shape, const void *values) {
    hid_t space = H5Screate_simple(rank, shape, NULL);
    hid_t set = H5Dcreate(place, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    must(set >= 0, name);
    must(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "H5Dwrite");
    must(H5Dclose(set) >= 0, "H5Dclose");
    H5Sclose(space);
}

static void write_file(const char *path) {
    static float x[COUNT];
    static Particle particles[COUNT];
    static int16_t field[10][20];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i / 2;
        particles[i] = (Particle){.id = i, .energy = i * 0.25};
        field[i % 200 / 20][i % 20] = (int16_t)(i % 200);
    }
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    must(file >= 0, "H5Fcreate");
    hid_t group = H5Gcreate(file, "step", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = particle_type();
    write_dataset(group, "x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, (hsize_t[]){COUNT}, x);
    write_dataset(group, "field", H5T_STD_I32LE, H5T_NATIVE_INT16, 2, (hsize_t[]){10, 20}, field);
    write_dataset(group, "particles", type, type, 1, (hsize_t[]){COUNT}, particles);
    H5Tclose(type);
    H5Gclose(group);
    must(H5Fclose(file) >= 0, "H5Fclose");
}

/* The energies alone, every second one, as another type. */
static double sum_of_energies(const char *path) {
    static float energies[COUNT / 2];
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t set = H5Dopen(file, "step/particles", H5P_DEFAULT);
    must(set >= 0, "H5Dopen");
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(float));
    H5Tinsert(type, "energy", 0, H5T_NATIVE_FLOAT);
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, (hsize_t[]){COUNT / 2}, NULL);
    hsize_t start = 0, stride = 2, count = COUNT / 2;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &count, NULL);
    must(H5Dread(set, type, memory, space, H5P_DEFAULT, energies) >= 0, "H5Dread");
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(set);
    must(H5Fclose(file) >= 0, "H5Fclose");
    double sum = 0;
    for (int i = 0; i < COUNT / 2; i++)
        sum += energies[i];
    return sum;
}

int main(int count, char **words) {
    const char *path = count > 1 ? words[1] : "particles.h5";
    write_file(path);
    printf("%s: the sum of every second energy is %.1f\n", path, sum_of_energies(path));
    return 0;
}
