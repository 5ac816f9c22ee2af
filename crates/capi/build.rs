//! Gives the shared library its name, which programs that are linked with it look for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libplasmon.so");
}
