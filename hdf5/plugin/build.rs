//! HDF5 unloads its plugins when it is closed. This one has threads (those of the client) and
//! connections that outlive that: it stays where it is.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
