//! Waiting without Ruby's lock.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use magnus::{Error, Ruby};

struct Call<'a> {
    wait: &'a dyn Fn(),
}

unsafe extern "C" fn run(call: *mut c_void) -> *mut c_void {
    // SAFETY: `without` passes a `Call` that outlives this call.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    // No panic may cross into C; what `wait` waits for is looked at again afterwards.
    let _ = catch_unwind(AssertUnwindSafe(|| (call.wait)()));
    std::ptr::null_mut()
}

struct Unblock<'a> {
    wake: &'a (dyn Fn() + Sync),
}

unsafe extern "C" fn unblock(unblock: *mut c_void) {
    // SAFETY: `without` passes an `Unblock` that outlives the call that may be unblocked.
    let unblock = unsafe { &*unblock.cast::<Unblock<'_>>() };
    let _ = catch_unwind(AssertUnwindSafe(|| (unblock.wake)()));
}

/// Runs `wait` without the lock. `wake`, called from another thread when this one is interrupted,
/// must make it return. Raises what the thread was interrupted with.
pub fn without(ruby: &Ruby, wait: &dyn Fn(), wake: &(dyn Fn() + Sync)) -> Result<(), Error> {
    let mut call = Call { wait };
    let mut unblocking = Unblock { wake };
    // SAFETY: both structures outlive the call. With RB_NOGVL_INTR_FAIL a pending interrupt makes
    // it return instead of jumping over our frames; `thread_check_ints` then raises it as a value.
    unsafe {
        rb_sys::rb_nogvl(
            Some(run),
            (&raw mut call).cast(),
            Some(unblock),
            (&raw mut unblocking).cast(),
            i32::try_from(rb_sys::RB_NOGVL_INTR_FAIL).unwrap_or(1),
        );
    }
    ruby.thread_check_ints()
}
