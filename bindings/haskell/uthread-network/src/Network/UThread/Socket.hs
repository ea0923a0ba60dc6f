-- | Sockets with the names and types of @network@, whose calls wait in the ring of a 'Manager'.
--
-- Change the import, and pass the manager to the calls that wait:
--
-- > import Network.UThread.Socket
-- >
-- > serve manager = do
-- >   listener <- socket AF_INET Stream defaultProtocol
-- >   bind listener (SockAddrInet 8080 0)
-- >   listen listener 1024
-- >   forever $ do
-- >     (connection, _) <- accept manager listener
-- >     forkIO (recv manager connection 4096 >>= sendAll manager connection)
--
-- The sockets of this module are blocking, as the kernel waits for them, but for the listener of 'accept'. To use a socket of
-- "Network.Socket", call 'adopt'. After that, do not pass it to the waiting calls of
-- "Network.Socket": they would block an operating system thread.
module Network.UThread.Socket
  ( -- * Calls that wait
    accept
  , connect
  , gracefulClose
  , withAccepted

    -- ** Byte strings
  , recv
  , recvFrom
  , send
  , sendTo
  , sendAll
  , sendAllTo
  , sendMany
  , sendManyTo
  , withReceived
  , withReceiver

    -- ** Memory
  , recvBuf
  , recvBufFrom
  , sendBuf
  , sendBufTo

    -- * Calls that do not wait
  , socket
  , adopt
  , module Network.Socket
  ) where

import Control.Concurrent (ThreadId, forkIO, forkOn, getNumCapabilities)
import Control.Exception (IOException, bracketOnError, finally, handle, mask, onException, throwIO)
import Control.Monad (unless, void)
import Data.Bits (complement, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Internal
import Data.ByteString.Unsafe (unsafeUseAsCString, unsafeUseAsCStringLen)
import Data.Word (Word32, Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eCONNABORTED, eINTR, errnoToIOError)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (poke)
import GHC.Conc (getNumProcessors)
import Network.Socket hiding
  ( accept
  , connect
  , gracefulClose
  , recvBuf
  , recvBufFrom
  , recvBufMsg
  , recvFd
  , sendBuf
  , sendBufMsg
  , sendBufTo
  , sendFd
  , socket
  )
import qualified Network.Socket as Network
import Network.Socket.Address (SocketAddress (..))
import System.Posix.Types (Fd (..))
import System.Timeout (timeout)

import UThread.Ring (Buffers, Manager, accepting, next, receiving, receivingCopies, submitBlocking, withMultishot)
import qualified UThread.Ring.Request as Request

foreign import ccall unsafe "fcntl"
  c_fcntl :: CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "uthread_hs_accept"
  c_accept :: CInt -> Ptr SockAddr -> Ptr Word32 -> IO CInt

-- | Makes a socket blocking, so that the kernel waits for it.
adopt :: Socket -> IO Socket
adopt made = withFdSocket made $ \fd -> do
  flags <- c_fcntl fd getFlags 0
  _ <- c_fcntl fd setFlags (flags .&. complement nonBlocking)
  pure made
  where
    getFlags = 3
    setFlags = 4
    nonBlocking = 0o4000

-- | Creates a socket.
socket :: Family -> SocketType -> ProtocolNumber -> IO Socket
socket family kind protocol = Network.socket family kind protocol >>= adopt

withFd :: Socket -> (Fd -> IO a) -> IO a
withFd made action = withFdSocket made (action . Fd)

-- | Accepts a connection, and returns it with the address of its peer. An exception loses none. The listener becomes non-blocking.
accept :: Manager -> Socket -> IO (Socket, SockAddr)
accept manager listener = allocaBytes addressRoom $ \address -> alloca $ \size -> mask $ \_ -> do
  fillBytes address 0 addressRoom
  let loop = do
        poke size (fromIntegral addressRoom)
        result <- withFd listener $ \(Fd fd) -> c_accept fd address size
        let failed = (== Errno (negate result))
        if any failed [eINTR, eCONNABORTED] then loop
        else if failed eAGAIN then withFd listener (\fd -> submitBlocking manager (Request.poll fd readable)) >> loop
        else if result < 0 then ioError (errnoToIOError "accept" (Errno (negate result)) Nothing Nothing)
        else pure result
  connection <- loop >>= mkSocket
  peer <- peekSocketAddress address `onException` close connection
  pure (connection, peer)
  where
    -- POLLIN
    readable = 1

-- | The size of @struct sockaddr_storage@.
addressRoom :: Int
addressRoom = 128

-- | Connects to an address.
connect :: Manager -> Socket -> SockAddr -> IO ()
connect manager made address = allocaBytes addressRoom $ \memory -> do
  pokeSocketAddress memory address
  withFd made $ \fd -> submitBlocking manager (Request.connect fd memory (sizeOfSocketAddress address))

-- | Shuts the connection down, waits at most so many milliseconds until the peer has done so too, and closes it.
gracefulClose :: Manager -> Socket -> Int -> IO ()
gracefulClose manager made milliseconds = end `finally` close made
  where
    end = handle ignore $ shutdown made ShutdownSend >> void (timeout (milliseconds * 1000) drain)
    drain = recv manager made 4096 >>= \bytes -> unless (ByteString.null bytes) drain
    -- The peer may have closed the connection already.
    ignore :: IOException -> IO ()
    ignore _ = pure ()

-- | Receives at most @size@ bytes: none if the peer has shut down.
recv :: Manager -> Socket -> Int -> IO ByteString
recv manager made size = withFd made $ \fd -> submitBlocking manager (Request.receive fd size)

-- | Receives a message of at most @size@ bytes, and the address of its sender.
recvFrom :: Manager -> Socket -> Int -> IO (ByteString, SockAddr)
recvFrom manager made size = do
  memory <- Internal.mallocByteString size
  (count, sender) <- withForeignPtr memory $ \pointer -> recvBufFrom manager made pointer size
  pure (Internal.fromForeignPtr memory 0 count, sender)

-- | Receives at most @size@ bytes into memory, and returns their number: 0 if the peer has shut down.
recvBuf :: Manager -> Socket -> Ptr Word8 -> Int -> IO Int
recvBuf manager made memory size = withFd made $ \fd -> submitBlocking manager (Request.receiveInto fd memory size)

-- | Receives a message of at most @size@ bytes into memory, and returns its length and the address of its sender.
recvBufFrom :: Manager -> Socket -> Ptr a -> Int -> IO (Int, SockAddr)
recvBufFrom manager made memory size = do
  (count, address) <- withFd made $ \fd -> submitBlocking manager (Request.receiveMessage fd memory size)
  -- That of a connected socket is empty.
  sender <-
    if ByteString.null address
      then getPeerName made
      else unsafeUseAsCString address (peekSocketAddress . castPtr)
  pure (count, sender)

-- | Sends from memory, and returns how many bytes were sent.
sendBuf :: Manager -> Socket -> Ptr Word8 -> Int -> IO Int
sendBuf manager made memory size = withFd made $ \fd -> submitBlocking manager (Request.sendFrom fd memory size)

-- | Sends a message from memory to an address, and returns how many bytes were sent.
sendBufTo :: Manager -> Socket -> Ptr a -> Int -> SockAddr -> IO Int
sendBufTo manager made memory size = sendPieces manager made [(castPtr memory, size)] . Just

-- | Sends pieces of memory as one message.
sendPieces :: Manager -> Socket -> [(Ptr Word8, Int)] -> Maybe SockAddr -> IO Int
sendPieces manager made pieces receiver = do
  address <- maybe (pure ByteString.empty) bytesOf receiver
  withFd made $ \fd -> submitBlocking manager (Request.sendMessage fd pieces address)
  where
    bytesOf address = Internal.create (sizeOfSocketAddress address) $ \memory -> pokeSocketAddress (castPtr memory) address

-- | Sends a message to an address, and returns how many bytes were sent.
sendTo :: Manager -> Socket -> ByteString -> SockAddr -> IO Int
sendTo manager made bytes receiver = unsafeUseAsCStringLen bytes $ \(memory, size) -> sendBufTo manager made memory size receiver

-- | Sends all bytes to an address, in more messages than one if the socket takes less.
sendAllTo :: Manager -> Socket -> ByteString -> SockAddr -> IO ()
sendAllTo manager made bytes receiver = unless (ByteString.null bytes) $ do
  sent <- sendTo manager made bytes receiver
  sendAllTo manager made (ByteString.drop sent bytes) receiver

-- | Sends all pieces, without putting them together.
sendMany :: Manager -> Socket -> [ByteString] -> IO ()
sendMany manager made = sendAllPieces manager made Nothing

-- | Sends all pieces to an address, in more messages than one if the socket takes less.
sendManyTo :: Manager -> Socket -> [ByteString] -> SockAddr -> IO ()
sendManyTo manager made pieces receiver = sendAllPieces manager made (Just receiver) pieces

sendAllPieces :: Manager -> Socket -> Maybe SockAddr -> [ByteString] -> IO ()
sendAllPieces manager made receiver = loop . filter (not . ByteString.null)
  where
    loop [] = pure ()
    loop pieces = do
      sent <- withPieces (take piecesMax pieces) $ \memory -> sendPieces manager made memory receiver
      loop (dropBytes sent pieces)
    -- IOV_MAX
    piecesMax = 1024
    withPieces pieces action = foldr with (action . reverse) pieces []
    with piece rest before = unsafeUseAsCStringLen piece $ \(memory, size) -> rest ((castPtr memory, size) : before)
    dropBytes count (piece : pieces)
      | count >= ByteString.length piece = dropBytes (count - ByteString.length piece) pieces
      | otherwise = ByteString.drop count piece : pieces
    dropBytes _ [] = []

-- | Sends bytes, and returns how many were sent.
send :: Manager -> Socket -> ByteString -> IO Int
send manager made bytes = withFd made $ \fd -> submitBlocking manager (Request.send fd bytes)

-- | Sends all bytes.
sendAll :: Manager -> Socket -> ByteString -> IO ()
sendAll manager made bytes = unless (ByteString.null bytes) $ do
  sent <- send manager made bytes
  sendAll manager made (ByteString.drop sent bytes)

-- | Starts a thread for each connection, by one request to the kernel for
-- all of them, and closes the connection when its thread has ended. At most @waiting@ connections wait for their
-- threads. Returns only with an exception. The listener becomes blocking, so that it is not for 'accept' at the same time.
--
-- With more capabilities than CPUs, the threads use one capability per CPU: on more, they would wait
-- for each other's time slices.
withAccepted :: Manager -> Socket -> Word32 -> (Socket -> IO ()) -> IO a
withAccepted manager made waiting serve = adopt made >>= \listener -> withFd listener $ \fd -> do
  capabilities <- getNumCapabilities
  processors <- getNumProcessors
  let fork number = if capabilities > processors then forkOn (number `mod` processors) else forkIO
  withMultishot manager (accepting fd) waiting (loop fork 0)
  where
    loop fork number connections = do
      bracketOnError (next connections >>= traverse (\(Fd fd) -> mkSocket fd)) (mapM_ close) $ \found -> case found of
        Just connection -> void (forkFinally' (fork number) (serve connection) (close connection))
        Nothing -> throwIO (userError "the stream of connections has ended")
      loop fork (number + 1 :: Int) connections
    forkFinally' :: (IO () -> IO ThreadId) -> IO () -> IO () -> IO ThreadId
    forkFinally' fork action end = mask $ \restore -> fork $ (restore action `onException` end) >> end

-- | Calls an action with each piece of received data, without copying it, until the peer has shut
-- down. One request to the kernel serves all pieces.
withReceived :: Manager -> Buffers -> Socket -> Word32 -> (ByteString -> IO ()) -> IO ()
withReceived manager buffers made waiting action = withFd made $ \fd ->
  withMultishot manager (receiving fd buffers) waiting loop
  where
    loop pieces = next pieces >>= mapM_ (\piece -> action piece >> loop pieces)

-- | Calls an action with a receive function, which returns the next piece of data, or an empty string
-- when the peer has shut down. One request to the kernel serves all pieces. At most @waiting@ pieces
-- wait to be taken.
withReceiver :: Manager -> Buffers -> Socket -> Word32 -> (IO ByteString -> IO a) -> IO a
withReceiver manager buffers made waiting action = withFd made $ \fd ->
  withMultishot manager (receivingCopies fd buffers) waiting $ \pieces ->
    action (maybe ByteString.empty id <$> next pieces)
