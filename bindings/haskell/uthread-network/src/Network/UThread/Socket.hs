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
-- The sockets of this module are blocking, as the kernel waits for them. To use a socket of
-- "Network.Socket", call 'adopt'. After that, do not pass it to the waiting calls of
-- "Network.Socket": they would block an operating system thread.
module Network.UThread.Socket
  ( -- * Calls that wait
    accept
  , connect
  , recv
  , send
  , sendAll
  , withAccepted
  , withReceived
  , withReceiver

    -- * Calls that do not wait
  , socket
  , adopt
  , module Network.Socket
  ) where

import Control.Concurrent (ThreadId, forkIO, forkOn, getNumCapabilities)
import Control.Exception (bracketOnError, mask, onException, throwIO)
import Control.Monad (unless, void)
import Data.Bits (complement, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Word (Word32)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import GHC.Conc (getNumProcessors)
import Network.Socket hiding (accept, connect, socket)
import qualified Network.Socket as Network
import Network.Socket.Address (pokeSocketAddress)
import System.Posix.Types (Fd (..))

import UThread.Ring (Buffers, Manager, accepting, next, receiving, receivingCopies, submitBlocking, withMultishot)
import qualified UThread.Ring.Request as Request

foreign import ccall unsafe "fcntl"
  c_fcntl :: CInt -> CInt -> CInt -> IO CInt

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

-- | Accepts a connection, and returns it with the address of its peer. An exception loses none.
accept :: Manager -> Socket -> IO (Socket, SockAddr)
accept manager listener = mask $ \_ -> do
  Fd fd <- withFd listener (submitBlocking manager . Request.accept)
  connection <- mkSocket fd
  peer <- getPeerName connection `onException` close connection
  pure (connection, peer)

-- | Connects to an address.
connect :: Manager -> Socket -> SockAddr -> IO ()
connect manager made address = allocaBytes size $ \memory -> do
  pokeSocketAddress memory address
  withFd made $ \fd -> submitBlocking manager (Request.connect fd memory length')
  where
    -- That of @struct sockaddr_storage@.
    size = 128
    length' = case address of
      SockAddrInet {} -> 16
      SockAddrInet6 {} -> 28
      SockAddrUnix {} -> 110

-- | Receives at most @ bytes: none if the peer has shut down.
recv :: Manager -> Socket -> Int -> IO ByteString
recv manager made size = withFd made $ \fd -> submitBlocking manager (Request.receive fd size)

-- | Sends bytes, and returns how many were sent.
send :: Manager -> Socket -> ByteString -> IO Int
send manager made bytes = withFd made $ \fd -> submitBlocking manager (Request.send fd bytes)

-- | Sends all bytes.
sendAll :: Manager -> Socket -> ByteString -> IO ()
sendAll manager made bytes = unless (ByteString.null bytes) $ do
  sent <- send manager made bytes
  sendAll manager made (ByteString.drop sent bytes)

-- | Starts a thread for each connection, by one request to the kernel for
-- all of them, and closes the connection when its thread has ended. At most @ connections wait for their
-- threads. Returns only with an exception.
--
-- With more capabilities than CPUs, the threads use one capability per CPU: on more, they would wait
-- for each other's time slices.
withAccepted :: Manager -> Socket -> Word32 -> (Socket -> IO ()) -> IO a
withAccepted manager listener waiting serve = withFd listener $ \fd -> do
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
-- when the peer has shut down. One request to the kernel serves all pieces. At most @ pieces
-- wait to be taken.
withReceiver :: Manager -> Buffers -> Socket -> Word32 -> (IO ByteString -> IO a) -> IO a
withReceiver manager buffers made waiting action = withFd made $ \fd ->
  withMultishot manager (receivingCopies fd buffers) waiting $ \pieces ->
    action (maybe ByteString.empty id <$> next pieces)
