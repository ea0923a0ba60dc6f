use crate::sched::features::shared_stack;

/// Calls a function on a stack that the fibers of a worker share, one after another.
///
/// Use it in code that thousands of fibers run between their waits: a parser, a state machine, a
/// cipher. What the function has on the stack is then in the cache for the next fiber too, and a
/// fiber that waits elsewhere has no memory for it. The call itself takes some 20 ns.
///
/// The function may wait, panic, and borrow like any other. While it waits, its fiber keeps the
/// stack, and the others take more. The size of the stack is that of the
/// [`Builder`](crate::runtime::Builder::stack_size); a fiber with a larger one of its own calls the
/// function there, as does every thread outside the runtime. Code that asks the C library for the
/// bounds of its stack (`pthread_getattr_np(3)`), as interpreters do, gets those of the fiber's own:
/// such code is better called directly.
///
/// ```
/// use uthread::thread::on_shared_stack;
///
/// let sum = uthread::spawn(|| {
///     on_shared_stack(|| {
///         let mut numbers = [0_u64; 1000];
///         numbers.iter_mut().zip(1..).for_each(|(number, value)| *number = value);
///         numbers.iter().sum::<u64>()
///     })
/// });
/// assert_eq!(sum.join().unwrap(), 500_500);
/// ```
#[inline]
pub fn on_shared_stack<T>(function: impl FnOnce() -> T) -> T {
    shared_stack::call(function)
}
