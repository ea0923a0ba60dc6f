//! The macro `select!`: creates the arms, and runs the body of the selected one.

/// Waits for one of several events and runs the body of its arm.
///
/// An arm is a call of a function of [`uthread::sync::select`](mod@crate::sync::select), by its
/// bare name; `-> pattern` binds the result. Exactly one arm is selected, and only its event takes
/// or sends a value. If several are ready, a random one is selected, so that none starves.
///
/// ```
/// use std::time::Duration;
/// use uthread::select;
/// use uthread::sync::mpsc;
///
/// let (sender, messages) = mpsc::channel();
/// uthread::spawn(move || sender.send("hello").unwrap());
/// select! {
///     recv(&messages) -> message => assert_eq!(message, Ok("hello")),
///     after(Duration::from_secs(60)) => panic!("nothing came"),
/// }
/// ```
///
/// [`readable`](crate::sync::select::readable) and [`writable`](crate::sync::select::writable) wait
/// for sockets, pipes and anything else that has a descriptor. They transfer no data; the body
/// does. This echo server ends on request:
///
/// ```
/// use std::io::{self, Read, Write};
/// use uthread::net::{TcpListener, TcpStream};
/// use uthread::select;
/// use uthread::sync::oneshot;
///
/// fn echo(mut stream: TcpStream, mut stop: oneshot::Receiver<()>) -> io::Result<()> {
///     let mut buffer = [0; 1024];
///     loop {
///         select! {
///             readable(&stream) -> ready => {
///                 ready?;
///                 let count = stream.read(&mut buffer)?;
///                 stream.write_all(&buffer[..count])?;
///             }
///             recv(&mut stop) => return Ok(()),
///         }
///     }
/// }
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
/// let (stop, stopped) = oneshot::channel();
/// let echoing = uthread::spawn(move || echo(server, stopped));
/// let mut answer = [0; 5];
/// client.write_all(b"hello")?;
/// client.read_exact(&mut answer)?;
/// stop.send(()).unwrap();
/// echoing.join().unwrap()?;
/// # io::Result::Ok(())
/// ```
///
/// `default => ..` as the last arm is selected if no other arm is ready, so the selection does not
/// wait. `default(duration) => ..` is selected after that time.
///
/// An arm `recv(..) -> message if condition => ..` takes part only if the condition is true. The
/// condition is evaluated once, before the arguments and before any wait. This pump holds one value
/// at a time:
///
/// ```
/// use uthread::select;
/// use uthread::sync::mpsc::sync_channel;
///
/// let (sender, input) = sync_channel(1);
/// let (output, receiver) = sync_channel(1);
/// uthread::spawn(move || (0..10).for_each(|number| sender.send(number).unwrap()));
/// let pump = uthread::spawn(move || {
///     let mut held = None;
///     loop {
///         select! {
///             recv(&input) -> number if held.is_none() => match number {
///                 Ok(number) => held = Some(number),
///                 Err(_) => break,
///             },
///             send(&output, &mut held) -> sent => sent.unwrap(),
///         }
///     }
/// });
/// assert!(receiver.iter().eq(0..10));
/// pump.join().unwrap();
/// ```
///
/// `select!` is an expression with the value of the selected body. A body may use `break`,
/// `continue` and `return`, and anything that the arms have borrowed.
///
/// # Panics
///
/// Panics if no arm takes part and there is no default.
///
/// # Cancellation
///
/// If the caller is [cancelled](crate::JoinHandle::cancel) or its deadline has passed, it is
/// unwound where the selection would have to wait, as with
/// [`mpsc`](crate::sync::mpsc#cancellation). In a destructor, the default is selected or, without
/// one, the first arm completes as if its other side were gone.
///
/// # What does not compile
///
/// A selection without arms would never end:
///
/// ```compile_fail
/// uthread::select! {}
/// ```
///
/// A value that is not in an `Option` would be lost if another arm were selected:
///
/// ```compile_fail,E0308
/// let (sender, _receiver) = uthread::sync::mpsc::channel();
/// uthread::select! { send(&sender, &mut 1) => {} }
/// ```
#[macro_export]
macro_rules! select {
    ($($arms:tt)+) => {
        $crate::__select!([] $($arms)+)
    };
}

/// Parses the arms one by one into `[name, arm, pattern, body]`, and generates the selection.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // The end of the input, by the kind of wait.
    ([$($arms:tt)+]) => {
        $crate::__select!(@arms [$($arms)+] select() {
            ::std::unreachable!("an arm was chosen")
        })
    };
    ([$($arms:tt)+] default => $body:expr $(,)?) => {
        $crate::__select!(@arms [$($arms)+] try_select() { $body })
    };
    ([$($arms:tt)+] default($timeout:expr) => $body:expr $(,)?) => {
        $crate::__select!(@arms [$($arms)+] select_timeout($timeout) { $body })
    };
    ([$($arms:tt)*] default $($rest:tt)*) => {
        ::std::compile_error!("`default`, or `default(duration)`, is the last of at least two arms")
    };

    // An arm: with or without a pattern and a condition, and with one of three ends of its body.
    ([$($arms:tt)*] $verb:ident($($argument:expr),* $(,)?) => $($rest:tt)+) => {
        $crate::__select!(@body [$($arms)*] {
            $crate::sync::select::$verb($($argument),*)
        } { _ } $($rest)+)
    };
    ([$($arms:tt)*] $verb:ident($($argument:expr),* $(,)?) if $guard:expr => $($rest:tt)+) => {
        $crate::__select!(@body [$($arms)*] {
            $crate::sync::select::guarded(if $guard {
                ::std::option::Option::Some($crate::sync::select::$verb($($argument),*))
            } else {
                ::std::option::Option::None
            })
        } { _ } $($rest)+)
    };
    ([$($arms:tt)*] $verb:ident($($argument:expr),* $(,)?) -> $output:pat => $($rest:tt)+) => {
        $crate::__select!(@body [$($arms)*] {
            $crate::sync::select::$verb($($argument),*)
        } { $output } $($rest)+)
    };
    ([$($arms:tt)*] $verb:ident($($argument:expr),* $(,)?) -> $output:pat if $guard:expr => $($rest:tt)+) => {
        $crate::__select!(@body [$($arms)*] {
            $crate::sync::select::guarded(if $guard {
                ::std::option::Option::Some($crate::sync::select::$verb($($argument),*))
            } else {
                ::std::option::Option::None
            })
        } { $output } $($rest)+)
    };
    (@body [$($arms:tt)*] $arm:tt $output:tt $body:expr, $($rest:tt)*) => {
        $crate::__select!([$($arms)* [arm $arm $output { $body }]] $($rest)*)
    };
    (@body [$($arms:tt)*] $arm:tt $output:tt $body:expr) => {
        $crate::__select!([$($arms)* [arm $arm $output { $body }]])
    };
    (@body [$($arms:tt)*] $arm:tt $output:tt $body:block $($rest:tt)*) => {
        $crate::__select!([$($arms)* [arm $arm $output $body]] $($rest)*)
    };

    // Each `arm` comes from a separate expansion step, so each is a separate variable.
    (@arms [$([$arm:ident $make:tt { $output:pat } $body:tt])+] $select:ident($($timeout:expr)?) $otherwise:tt) => {{
        $(let mut $arm = $make;)+
        $crate::sync::select::$select(&mut [$(&mut $arm),+] $(, $timeout)?);
        $(if let ::std::option::Option::Some(output) = $arm.take() {
            let $output = output;
            $body
        } else)+
        $otherwise
    }};

    ($($arms:tt)*) => {
        ::std::compile_error!("an arm is `function(arguments) -> pattern if condition => body`")
    };
}
