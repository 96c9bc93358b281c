#![expect(unsafe_code, reason = "SQLite calls its file layer through C function pointers")]
//! The way from SQLite's C interface to the files of a disk.
//!
//! Each disk takes a slot: a VFS that is registered with SQLite once and never freed, because a
//! connection may keep a pointer to it. A slot serves one disk at a time, and the next when the
//! last connection to that one is gone.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libsqlite3_sys as ffi;

use super::files::{Code, Files, Opened};
use super::locks::{Level, REGION_BYTES};

/// The sector that the disk claims, as SQLite's own layers do. It is what SQLite protects around
/// a write if [`Disk::set_power_safe_overwrite`](super::Disk) was told that a write may harm it.
const SECTOR_CLAIMED: c_int = 4_096;

/// The longest path that SQLite may hand over.
const PATH_BYTES_MAX: c_int = 1_024;

/// Slots whose disk is gone.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// Numbers the slots, so that each has a name of its own.
static SLOTS: AtomicU64 = AtomicU64::new(0);

/// A registered VFS and the disk that it serves now.
struct Slot {
    name: CString,
    disk: Mutex<Weak<Mounted>>,
}

/// A disk that SQLite can reach.
pub(super) struct Mounted {
    files: Files,
    slot: &'static Slot,
}

/// What SQLite holds of an open file. It allots the bytes and hands them to every call.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

/// An open file, with the disk that must outlive it.
struct Open {
    disk: Arc<Mounted>,
    opened: Opened,
}

impl Mounted {
    pub(super) fn new(files: Files) -> Arc<Self> {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = free.unwrap_or_else(Slot::register);
        let mounted = Arc::new(Self { files, slot });
        *slot.disk() = Arc::downgrade(&mounted);
        mounted
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn name(&self) -> &str {
        self.slot.name.to_str().expect("a slot has a name in ASCII")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

impl Slot {
    fn register() -> &'static Self {
        let number = SLOTS.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("baton-disk-{number}")).expect("a number has no NUL");
        let slot: &'static Self = Box::leak(Box::new(Self { name, disk: Mutex::new(Weak::new()) }));
        // SAFETY: The default VFS exists from initialisation on, and what is registered here is
        // leaked, so SQLite may keep both for ever.
        let code = unsafe {
            ffi::sqlite3_initialize();
            let default = &*ffi::sqlite3_vfs_find(ptr::null());
            ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs(slot, default))), 0)
        };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes a VFS");
        slot
    }

    fn disk(&self) -> std::sync::MutexGuard<'_, Weak<Mounted>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the table of calls; time, sleep, chance and libraries are those of the default VFS,
/// whose functions make no use of the VFS that is passed to them.
fn vfs(slot: &'static Slot, default: &ffi::sqlite3_vfs) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: c_int::try_from(size_of::<Handle>()).expect("a handle is small"),
        mxPathname: PATH_BYTES_MAX,
        pNext: ptr::null_mut(),
        zName: slot.name.as_ptr(),
        pAppData: ptr::from_ref(slot).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xGetLastError: Some(last_error),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
        ..*default
    }
}

/// The calls on an open file. Version 2 has shared memory and leaves out memory-mapped reading.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Finds the disk behind a VFS; none if it is gone.
///
/// # Safety
/// `vfs` must be one that [`Slot::register`] made.
unsafe fn disk(vfs: *mut ffi::sqlite3_vfs) -> Option<Arc<Mounted>> {
    // SAFETY: Such a VFS points to its slot, and both are never freed.
    let slot = unsafe { &*(*vfs).pAppData.cast::<Slot>() };
    slot.disk().upgrade()
}

/// Finds the open file behind a handle.
///
/// # Safety
/// `file` must have been opened by [`open`] and not closed, and no other reference to it may live,
/// which SQLite grants by using a file from one thread at a time.
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: `open` put a box there, and only `close` takes it away.
    unsafe { &mut *(*file.cast::<Handle>()).open }
}

/// Reads a path from C; none if it is null or not text.
///
/// # Safety
/// `path` must be null or end with NUL, and live for `'a`.
unsafe fn text<'a>(path: *const c_char) -> Option<&'a str> {
    // SAFETY: As the caller promises.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })?.to_str().ok()
}

fn code(result: Result<(), Code>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

fn size(number: impl TryInto<usize>) -> usize {
    number.try_into().ok().expect("SQLite asks for no negative place or length")
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a path or null, and room for a handle and the flags.
    unsafe {
        // Without methods SQLite does not close what could not be opened.
        (*file).pMethods = ptr::null();
        let Some(disk) = disk(vfs) else { return ffi::SQLITE_CANTOPEN };
        let path = text(name);
        if path.is_none() && !name.is_null() {
            return ffi::SQLITE_CANTOPEN;
        }
        match disk.files.open(path, flags) {
            Err(error) => error,
            Ok(opened) => {
                let handle = file.cast::<Handle>();
                (*handle).open = Box::into_raw(Box::new(Open { disk, opened }));
                (*handle).base.pMethods = &raw const METHODS;
                if let Some(out) = out_flags.as_mut() {
                    *out = flags;
                }
                ffi::SQLITE_OK
            }
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: The file is open, and SQLite uses it no more after this.
    let open = unsafe { Box::from_raw((*file.cast::<Handle>()).open) };
    open.disk.files.close(&open.opened);
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: The file is open, and SQLite gives room for `amount` bytes.
    let (open, into) =
        unsafe { (opened(file), std::slice::from_raw_parts_mut(into.cast(), size(amount))) };
    match open.disk.files.read(&open.opened, size(offset), into) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(error) => error,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: The file is open, and SQLite passes `amount` bytes.
    let (open, data) =
        unsafe { (opened(file), std::slice::from_raw_parts(data.cast(), size(amount))) };
    code(open.disk.files.write(&open.opened, size(offset), data))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    code(open.disk.files.truncate(&open.opened, size(len)))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    code(open.disk.files.sync(&mut open.opened))
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, len: *mut i64) -> c_int {
    // SAFETY: The file is open, and SQLite gives room for the length.
    unsafe {
        let open = opened(file);
        *len = i64::try_from(open.disk.files.len(&open.opened)).expect("memory is below 2^63");
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    code(open.disk.files.lock(&open.opened, Level::from_code(level)))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    open.disk.files.unlock(&open.opened, Level::from_code(level));
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    // SAFETY: The file is open, and SQLite gives room for the result.
    unsafe {
        let open = opened(file);
        *result = c_int::from(open.disk.files.reserved(&open.opened));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    SECTOR_CLAIMED
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    if open.disk.files.state().power_safe { ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE } else { 0 }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    assert!(size(bytes) <= REGION_BYTES, "a region of {bytes} bytes has no room");
    // SAFETY: The file is open, and SQLite gives room for the address.
    unsafe {
        let open = opened(file);
        match open.disk.files.map(&open.opened, size(index), extend != 0) {
            Ok(region) => {
                *out = region.map_or(ptr::null_mut(), |region| region.cast_mut().cast());
                ffi::SQLITE_OK
            }
            Err(error) => {
                *out = ptr::null_mut();
                error
            }
        }
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    let mask = ((1_u32 << size(count)) - 1) << size(offset);
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        open.disk.files.unlock_map(&open.opened, mask);
        return ffi::SQLITE_OK;
    }
    let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
    code(open.disk.files.lock_map(&open.opened, mask, exclusive))
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: The file is open.
    let open = unsafe { opened(file) };
    open.disk.files.unmap(&open.opened);
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS and a path.
    let (Some(disk), Some(path)) = (unsafe { (disk(vfs), text(name)) }) else {
        return ffi::SQLITE_IOERR_DELETE;
    };
    code(disk.files.delete(path, sync_directory != 0))
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a path and room for the result.
    unsafe {
        let (Some(disk), Some(path)) = (disk(vfs), text(name)) else {
            return ffi::SQLITE_IOERR_ACCESS;
        };
        // An empty journal is no journal; SQLite's own layers answer so too.
        let empty_counts = flags != ffi::SQLITE_ACCESS_EXISTS;
        *result = c_int::from(disk.files.exists(path, empty_counts));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a path and `room` bytes to copy it into.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if bytes.len() > size(room) {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(
    _vfs: *mut ffi::sqlite3_vfs,
    _room: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}
