//! Says which version of Python the module is built for (`cfg(Py_3_12)` and so on): some of what is
//! fast depends on it.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
