//! The macro `select!`: arms become calls, and the chosen one's body is run.

/// Waits for one of several, and goes on with it: of channels, times and sockets.
///
/// Each arm is a call of a function of [`uthread::sync::select`](mod@crate::sync::select), by its bare name;
/// `-> pattern` binds what has come. Exactly one arm is run, and only its arm takes or sends anything.
/// Where several have come, a random one is chosen, so that none starves.
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
/// A socket or a pipe, or whatever else has a descriptor, is waited for by
/// [`readable`](crate::sync::select::readable) and [`writable`](crate::sync::select::writable). These take nothing: the
/// body makes the call. So an echo that ends when it is told to:
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
/// `default => ..`, as the last arm, does not wait: it is run if no other can be. `default(duration) => ..`
/// waits for so long at most.
///
/// An arm `recv(..) -> message if condition => ..` takes part only if the condition holds, which is looked
/// at once, before any wait and before the arguments. So a pump, which holds one value at a time:
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
/// It is an expression: the value is that of the body. A body may `break`, `continue` and `return`, and may
/// use what the arms borrowed.
///
/// # Panics
///
/// When no arm takes part and there is no default.
///
/// # Cancellation
///
/// Who may not wait any more, because it is [cancelled](crate::JoinHandle::cancel) or its time is over, is
/// unwound where the choice would have to, as with [`mpsc`](crate::sync::mpsc#cancellation). In a destructor
/// the default is run or, without one, the first arm as if its other side were gone.
///
/// # What does not compile
///
/// A choice without arms would never end:
///
/// ```compile_fail
/// uthread::select! {}
/// ```
///
/// A value that is not in an `Option` would be lost if another arm were chosen:
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

/// Reads the arms one by one into `[name, arm, pattern, body]`, and writes the choice.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // The end, by how it waits.
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

    // An arm: with or without a pattern and a guard, then by what ends its body.
    ([$($arms:tt)*] $verb:ident($($argument:expr),* $(,)?) => $($rest:tt)+) => {
        $crate::__select!(@body [$($arms)*] {
            $crate::sync::select::$verb($($argument),*)
        } { _ } $($rest)+)
    };
    ([$($arms:tt)*] $verb:ident($($argument:expr),* $(,)?) if $guard:expr => $($rest:tt)+) => {
        $crate::__select!(@body [$($arms)*] {
            $crate::sync::select::guarded(match $guard {
                true => ::std::option::Option::Some($crate::sync::select::$verb($($argument),*)),
                false => ::std::option::Option::None,
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
            $crate::sync::select::guarded(match $guard {
                true => ::std::option::Option::Some($crate::sync::select::$verb($($argument),*)),
                false => ::std::option::Option::None,
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

    // Each `arm` came from a step of its own, so that each is another variable.
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
