//! The functions of the library, one address each.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;

use crate::class::VolClass;
use crate::library::Library;
use crate::types::{Herr, Hid, Hsize, Htri, Location, Ptr, Request, Text};

/// A function that this libhdf5 lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFunction(pub &'static CStr);

type PushError = unsafe extern "C" fn(Hid, Text, Text, c_uint, Hid, Hid, Hid, Text, ...) -> Herr;

macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $out:ty;)*) => {
        /// The addresses of HDF5's functions in one libhdf5, under the names that C knows.
        #[expect(non_snake_case, reason = "the functions have the names that C knows")]
        #[derive(Clone, Copy)]
        pub struct Api {
            $(
                #[doc = concat!("The function `", stringify!($name), "`.")]
                pub $name: unsafe extern "C" fn($($arg),*) -> $out,
            )*
            /// `H5Epush2`, which takes a message in the manner of `printf`.
            pub push_error: PushError,
        }

        impl Api {
            /// Looks every function up.
            ///
            /// # Errors
            ///
            /// The first function that is not there.
            pub fn load(library: &Library) -> Result<Self, MissingFunction> {
                let find = |name: &'static CStr| -> Result<NonNull<c_void>, MissingFunction> {
                    library.symbol(name).ok_or(MissingFunction(name))
                };
                Ok(Self {
                    $($name: {
                        const NAME: &CStr = match CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => c"",
                        };
                        let found = find(NAME)?;
                        // SAFETY: the symbol is the C function of this name, whose signature is
                        // the declared one in every version that the caller admits.
                        unsafe {
                            std::mem::transmute::<
                                NonNull<c_void>,
                                unsafe extern "C" fn($($arg),*) -> $out,
                            >(found)
                        }
                    },)*
                    // SAFETY: as above; H5Epush2 is declared with these parameters and an
                    // ellipsis since HDF5 1.8.
                    push_error: unsafe {
                        std::mem::transmute::<NonNull<c_void>, PushError>(find(c"H5Epush2")?)
                    },
                })
            }
        }
    };
}

functions! {
    H5open() -> Herr;
    H5get_libversion(*mut c_uint, *mut c_uint, *mut c_uint) -> Herr;
    H5allocate_memory(usize, bool) -> Ptr;
    H5free_memory(Ptr) -> Herr;

    H5Eget_current_stack() -> Hid;
    H5Eset_current_stack(Hid) -> Herr;
    H5Eclose_stack(Hid) -> Herr;
    H5Eget_auto2(Hid, *mut Ptr, *mut Ptr) -> Herr;
    H5Eset_auto2(Hid, Ptr, Ptr) -> Herr;

    H5Fopen(Text, c_uint, Hid) -> Hid;
    H5Fclose(Hid) -> Herr;
    H5Dopen2(Hid, Text, Hid) -> Hid;
    H5Dclose(Hid) -> Herr;
    H5Dget_space(Hid) -> Hid;
    H5Dread(Hid, Hid, Hid, Hid, Hid, Ptr) -> Herr;
    H5Dwrite(Hid, Hid, Hid, Hid, Hid, *const c_void) -> Herr;
    H5Dfill(*const c_void, Hid, Ptr, Hid, Hid) -> Herr;
    H5VLobject(Hid) -> Ptr;

    H5Iinc_ref(Hid) -> c_int;
    H5Idec_ref(Hid) -> c_int;
    H5Iget_type(Hid) -> c_int;

    H5Pcopy(Hid) -> Hid;
    H5Pcreate(Hid) -> Hid;
    H5Pclose(Hid) -> Herr;
    H5Pisa_class(Hid, Hid) -> Htri;
    H5Pget(Hid, Text, Ptr) -> Herr;
    H5Pset(Hid, Text, *const c_void) -> Herr;
    H5Pget_size(Hid, Text, *mut usize) -> Herr;
    H5Pget_driver(Hid) -> Hid;
    H5Pget_driver_info(Hid) -> *const c_void;
    H5FDis_driver_registered_by_name(Text) -> Htri;
    H5Pset_driver_by_name(Hid, Text, Text) -> Herr;
    H5Pget_vol_info(Hid, *mut Ptr) -> Herr;
    H5Pset_vol(Hid, Hid, *const c_void) -> Herr;
    H5Pset_fclose_degree(Hid, c_int) -> Herr;
    H5Pget_layout(Hid) -> c_int;
    H5Pget_nfilters(Hid) -> c_int;
    H5Pget_external_count(Hid) -> c_int;
    H5Pget_external(Hid, c_uint, usize, *mut c_char, *mut i64, *mut Hsize) -> Herr;
    H5Pset_external(Hid, Text, i64, Hsize) -> Herr;
    H5Pset_layout(Hid, c_int) -> Herr;
    H5Pget_virtual_count(Hid, *mut usize) -> Herr;
    H5Pget_virtual_vspace(Hid, usize) -> Hid;
    H5Pget_virtual_srcspace(Hid, usize) -> Hid;
    H5Pget_virtual_filename(Hid, usize, *mut c_char, usize) -> isize;
    H5Pget_virtual_dsetname(Hid, usize, *mut c_char, usize) -> isize;
    H5Pget_virtual_prefix(Hid, *mut c_char, usize) -> isize;
    H5Pget_chunk(Hid, c_int, *mut Hsize) -> c_int;
    H5Pset_chunk(Hid, c_int, *const Hsize) -> Herr;
    H5Pget_chunk_opts(Hid, *mut c_uint) -> Herr;
    H5Pfill_value_defined(Hid, *mut c_int) -> Herr;
    H5Pget_fill_value(Hid, Hid, Ptr) -> Herr;
    H5Pget_fill_time(Hid, *mut c_int) -> Herr;
    H5Pget_alloc_time(Hid, *mut c_int) -> Herr;

    H5Tclose(Hid) -> Herr;
    H5Tcopy(Hid) -> Hid;
    H5Treclaim(Hid, Hid, Hid, Ptr) -> Herr;
    H5Tis_variable_str(Hid) -> Htri;
    H5Tequal(Hid, Hid) -> Htri;
    H5Tconvert(Hid, Hid, usize, Ptr, Ptr, Hid) -> Herr;
    H5Tget_class(Hid) -> c_int;
    H5Tget_size(Hid) -> usize;
    H5Tget_order(Hid) -> c_int;
    H5Tget_sign(Hid) -> c_int;
    H5Tget_precision(Hid) -> usize;
    H5Tget_offset(Hid) -> c_int;
    H5Tget_fields(Hid, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> Herr;
    H5Tget_ebias(Hid) -> usize;
    H5Tget_norm(Hid) -> c_int;
    H5Tget_nmembers(Hid) -> c_int;
    H5Tget_member_name(Hid, c_uint) -> *mut c_char;
    H5Tget_member_offset(Hid, c_uint) -> usize;
    H5Tget_member_type(Hid, c_uint) -> Hid;
    H5Tget_member_index(Hid, Text) -> c_int;
    H5Tget_member_value(Hid, c_uint, Ptr) -> Herr;
    H5Tget_super(Hid) -> Hid;
    H5Tget_cset(Hid) -> c_int;
    H5Tget_strpad(Hid) -> c_int;
    H5Tget_tag(Hid) -> *mut c_char;
    H5Tget_array_ndims(Hid) -> c_int;
    H5Tget_array_dims2(Hid, *mut Hsize) -> c_int;

    H5Screate_simple(c_int, *const Hsize, *const Hsize) -> Hid;
    H5Scopy(Hid) -> Hid;
    H5Sclose(Hid) -> Herr;
    H5Sselect_valid(Hid) -> Htri;
    H5Sget_simple_extent_ndims(Hid) -> c_int;
    H5Sget_simple_extent_type(Hid) -> c_int;
    H5Sget_simple_extent_dims(Hid, *mut Hsize, *mut Hsize) -> c_int;
    H5Sget_simple_extent_npoints(Hid) -> i64;
    H5Sset_extent_simple(Hid, c_int, *const Hsize, *const Hsize) -> Herr;
    H5Sextent_copy(Hid, Hid) -> Herr;
    H5Sget_select_npoints(Hid) -> i64;
    H5Sget_select_type(Hid) -> c_int;
    H5Sget_select_bounds(Hid, *mut Hsize, *mut Hsize) -> Herr;
    H5Sis_regular_hyperslab(Hid) -> Htri;
    H5Sget_regular_hyperslab(Hid, *mut Hsize, *mut Hsize, *mut Hsize, *mut Hsize) -> Htri;
    H5Sselect_all(Hid) -> Herr;
    H5Sselect_hyperslab(
        Hid, c_int, *const Hsize, *const Hsize, *const Hsize, *const Hsize
    ) -> Herr;
    H5Sselect_project_intersection(Hid, Hid, Hid) -> Hid;
    H5Ssel_iter_create(Hid, usize, c_uint) -> Hid;
    H5Ssel_iter_get_seq_list(Hid, usize, usize, *mut usize, *mut usize, *mut Hsize, *mut usize)
        -> Herr;
    H5Ssel_iter_close(Hid) -> Herr;

    H5VLget_connector_id_by_value(c_int) -> Hid;
    H5VLget_connector_id(Hid) -> Hid;
    H5VLget_value(Hid, *mut c_int) -> Herr;
    H5VLclose(Hid) -> Herr;
    H5VLdataset_optional_op(Text, Text, c_uint, Hid, Ptr, Hid, Hid) -> Herr;
    H5VLwrap_object(Ptr, c_int, Hid, Ptr) -> Ptr;
    H5VLunwrap_object(Ptr, Hid) -> Ptr;
    H5VLget_object(Ptr, Hid) -> Ptr;
    H5VLget_wrap_ctx(Ptr, Hid, *mut Ptr) -> Herr;
    H5VLfree_wrap_ctx(Ptr, Hid) -> Herr;
    H5VLoptional(Ptr, Hid, Ptr, Hid, Request) -> Herr;

    H5VLattr_create(Ptr, *const Location, Hid, Text, Hid, Hid, Hid, Hid, Hid, Request) -> Ptr;
    H5VLattr_open(Ptr, *const Location, Hid, Text, Hid, Hid, Request) -> Ptr;
    H5VLattr_read(Ptr, Hid, Hid, Ptr, Hid, Request) -> Herr;
    H5VLattr_write(Ptr, Hid, Hid, *const c_void, Hid, Request) -> Herr;
    H5VLattr_get(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLattr_specific(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;
    H5VLattr_optional(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLattr_close(Ptr, Hid, Hid, Request) -> Herr;

    H5VLdataset_create(Ptr, *const Location, Hid, Text, Hid, Hid, Hid, Hid, Hid, Hid, Request)
        -> Ptr;
    H5VLdataset_open(Ptr, *const Location, Hid, Text, Hid, Hid, Request) -> Ptr;
    H5VLdataset_read(usize, *mut Ptr, Hid, *mut Hid, *mut Hid, *mut Hid, Hid, *mut Ptr, Request)
        -> Herr;
    H5VLdataset_write(
        usize, *mut Ptr, Hid, *mut Hid, *mut Hid, *mut Hid, Hid, *mut *const c_void, Request
    ) -> Herr;
    H5VLdataset_get(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLdataset_specific(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLdataset_optional(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLdataset_close(Ptr, Hid, Hid, Request) -> Herr;

    H5VLdatatype_commit(Ptr, *const Location, Hid, Text, Hid, Hid, Hid, Hid, Hid, Request) -> Ptr;
    H5VLdatatype_open(Ptr, *const Location, Hid, Text, Hid, Hid, Request) -> Ptr;
    H5VLdatatype_get(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLdatatype_specific(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLdatatype_optional(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLdatatype_close(Ptr, Hid, Hid, Request) -> Herr;

    H5VLfile_create(Text, c_uint, Hid, Hid, Hid, Request) -> Ptr;
    H5VLfile_open(Text, c_uint, Hid, Hid, Request) -> Ptr;
    H5VLfile_get(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLfile_specific(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLfile_optional(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLfile_close(Ptr, Hid, Hid, Request) -> Herr;

    H5VLgroup_create(Ptr, *const Location, Hid, Text, Hid, Hid, Hid, Hid, Request) -> Ptr;
    H5VLgroup_open(Ptr, *const Location, Hid, Text, Hid, Hid, Request) -> Ptr;
    H5VLgroup_get(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLgroup_specific(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLgroup_optional(Ptr, Hid, Ptr, Hid, Request) -> Herr;
    H5VLgroup_close(Ptr, Hid, Hid, Request) -> Herr;

    H5VLlink_create(Ptr, Ptr, *const Location, Hid, Hid, Hid, Hid, Request) -> Herr;
    H5VLlink_copy(Ptr, *const Location, Ptr, *const Location, Hid, Hid, Hid, Hid, Request) -> Herr;
    H5VLlink_move(Ptr, *const Location, Ptr, *const Location, Hid, Hid, Hid, Hid, Request) -> Herr;
    H5VLlink_get(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;
    H5VLlink_specific(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;
    H5VLlink_optional(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;

    H5VLobject_open(Ptr, *const Location, Hid, *mut c_int, Hid, Request) -> Ptr;
    H5VLobject_copy(
        Ptr, *const Location, Text, Ptr, *const Location, Text, Hid, Hid, Hid, Hid, Request
    ) -> Herr;
    H5VLobject_get(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;
    H5VLobject_specific(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;
    H5VLobject_optional(Ptr, *const Location, Hid, Ptr, Hid, Request) -> Herr;

    H5VLintrospect_get_conn_cls(Ptr, Hid, c_int, *mut *const VolClass) -> Herr;
    H5VLintrospect_get_cap_flags(*const c_void, Hid, *mut u64) -> Herr;
    H5VLintrospect_opt_query(Ptr, Hid, c_int, c_int, *mut u64) -> Herr;

    H5VLrequest_wait(Ptr, Hid, u64, *mut c_int) -> Herr;
    H5VLrequest_notify(Ptr, Hid, Ptr, Ptr) -> Herr;
    H5VLrequest_cancel(Ptr, Hid, *mut c_int) -> Herr;
    H5VLrequest_specific(Ptr, Hid, Ptr) -> Herr;
    H5VLrequest_optional(Ptr, Hid, Ptr) -> Herr;
    H5VLrequest_free(Ptr, Hid) -> Herr;

    H5VLblob_put(Ptr, Hid, *const c_void, usize, Ptr, Ptr) -> Herr;
    H5VLblob_get(Ptr, Hid, *const c_void, Ptr, usize, Ptr) -> Herr;
    H5VLblob_specific(Ptr, Hid, Ptr, Ptr) -> Herr;
    H5VLblob_optional(Ptr, Hid, Ptr, Ptr) -> Herr;

    H5VLtoken_cmp(Ptr, Hid, *const c_void, *const c_void, *mut c_int) -> Herr;
    H5VLtoken_to_str(Ptr, c_int, Hid, *const c_void, *mut *mut c_char) -> Herr;
    H5VLtoken_from_str(Ptr, c_int, Hid, Text, Ptr) -> Herr;
}
