{-# LANGUAGE ExistentialQuantification #-}

-- | Requests to the kernel, as values: what is written into the entry of the submission queue, and what the result means.
--
-- Those of this module work on every driver. 'request' makes any other one.
--
-- Descriptors are those of the kernel, and blocking: a socket of @network@ is not, see the package @uthread-network@.
module UThread.Ring.Request
  ( -- * Requests
    Request (..)
  , Entry
  , request
  , nop
  , sleep
  , poll

    -- * Files
  , openFile
  , close
  , readAt
  , writeAt
  , sync
  , Offset (..)

    -- * Sockets
  , accept
  , connect
  , receive
  , receiveInto
  , receiveMessage
  , send
  , sendFrom
  , sendMessage
  , shutdown

    -- * Entries
  , setOpcode
  , setFd
  , setAddress
  , setLength
  , setOffset
  , setFlags
  ) where

import Control.Monad (forM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Internal
import Data.Int (Int32, Int64)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Error (Errno (..), eTIME, errnoToIOError)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr
  ( ForeignPtr
  , mallocForeignPtrBytes
  , touchForeignPtr
  , withForeignPtr
  )
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import System.Posix.Types (Fd (..))

-- | The kernel's @struct io_uring_sqe@, which is zero at first.
data Entry

-- | A request whose result is an @a@.
data Request a = forall memory. Request
  { -- | Allocates what the kernel reads or writes. It lives until the request has ended.
    allocate :: IO memory
  , -- | Writes the entry.
    encode :: memory -> Ptr Entry -> IO ()
  , -- | Interprets the result, which is a negative errno if the request has failed, and the flags of the completion. Throws an 'IOError'.
    decode :: memory -> Int32 -> Word32 -> IO a
  , -- | Undoes a request that has completed although its thread was interrupted.
    undo :: Int32 -> IO ()
  , -- | Keeps the memory alive until here.
    release :: memory -> IO ()
  }

instance Functor Request where
  fmap f (Request allocate' encode' decode' undo' release') =
    Request allocate' encode' (\memory result flags -> f <$> decode' memory result flags) undo' release'

-- | A request without memory of its own. The result is that of the kernel. The action must leave everything valid that the entry refers to until
-- the request has ended.
request :: String -> (Ptr Entry -> IO ()) -> Request Int32
request name write =
  Request
    { allocate = pure ()
    , encode = \() -> write
    , decode = \() result _ -> check name result
    , undo = \_ -> pure ()
    , release = pure
    }

check :: String -> Int32 -> IO Int32
check name result = do
  when (result < 0) . ioError $
    errnoToIOError name (Errno (fromIntegral (negate result))) Nothing Nothing
  pure result

-- | Sets what the request does: a number of @linux/io_uring.h@.
setOpcode :: Ptr Entry -> Word8 -> IO ()
setOpcode entry = pokeByteOff entry 0

-- | Sets the descriptor.
setFd :: Ptr Entry -> Fd -> IO ()
setFd entry (Fd fd) = pokeByteOff entry 4 fd

-- | Sets the offset, or the second address.
setOffset :: Ptr Entry -> Word64 -> IO ()
setOffset entry = pokeByteOff entry 8

-- | Sets the address of the memory.
setAddress :: Ptr Entry -> Ptr a -> IO ()
setAddress entry = pokeByteOff entry 16

-- | Sets the length of the memory, or another number.
setLength :: Ptr Entry -> Word32 -> IO ()
setLength entry = pokeByteOff entry 24

-- | Sets the flags of the operation, such as those of @open(2)@ and @recv(2)@.
setFlags :: Ptr Entry -> Word32 -> IO ()
setFlags entry = pokeByteOff entry 28

-- The operations of @linux/io_uring.h@.
opNop, opTimeout, opPollAdd, opOpenAt, opClose, opRead, opWrite, opFsync, opAccept, opConnect, opRecv, opRecvMsg, opSend, opSendMsg, opShutdown :: Word8
opNop = 0
opTimeout = 11
opPollAdd = 6
opOpenAt = 18
opClose = 19
opRead = 22
opWrite = 23
opFsync = 3
opAccept = 13
opConnect = 16
opRecv = 27
opRecvMsg = 10
opSend = 26
opSendMsg = 9
opShutdown = 34

-- | Does nothing.
nop :: Request ()
nop = () <$ request "nop" (`setOpcode` opNop)

-- | Waits for a number of microseconds.
sleep :: Int64 -> Request ()
sleep microseconds =
  Request
    { allocate = mallocForeignPtrBytes 16
    , encode = \time entry -> withForeignPtr time $ \pointer -> do
        pokeByteOff pointer 0 (microseconds `div` 1000000)
        pokeByteOff pointer 8 (microseconds `mod` 1000000 * 1000)
        setOpcode entry opTimeout
        setFd entry (-1)
        setAddress entry pointer
        setLength entry 1
    , decode = \_ result _ ->
        when (Errno (fromIntegral (negate result)) /= eTIME) . void $ check "sleep" result
    , undo = \_ -> pure ()
    , release = touchForeignPtr :: ForeignPtr Word8 -> IO ()
    }

-- | Waits for one of these @POLL*@ events, and returns those that have occurred.
poll :: Fd -> Word32 -> Request Word32
poll fd events = fmap fromIntegral . request "poll" $ \entry -> do
  setOpcode entry opPollAdd
  setFd entry fd
  setFlags entry events

-- | Opens a file, with the flags and the mode of @open(2)@. The path is one without NUL.
openFile :: ByteString -> Word32 -> Word32 -> Request Fd
openFile path flags mode =
  Request
    { allocate = pure (ByteString.snoc path 0)
    , encode = \text entry -> do
        setOpcode entry opOpenAt
        setFd entry (-100)
        setAddress entry (start text)
        setLength entry mode
        setFlags entry flags
    , decode = \_ result _ -> Fd . fromIntegral <$> check "open" result
    , undo = closeNow
    , release = touch
    }

-- | Closes a descriptor.
close :: Fd -> Request ()
close fd = fmap (const ()) . request "close" $ \entry -> setOpcode entry opClose >> setFd entry fd

-- | The offset of a read or write.
data Offset
  = -- | At this offset.
    At Word64
  | -- | At the current position of the file. Use it for pipes and sockets, too, which have no position.
    Position
  deriving (Eq, Show)

offsetOf :: Offset -> Word64
offsetOf (At offset) = offset
offsetOf Position = maxBound

-- | Reads at most @size@ bytes: none at the end of the file.
readAt :: Fd -> Offset -> Int -> Request ByteString
readAt fd offset size = into "read" size $ \entry -> do
  setOpcode entry opRead
  setFd entry fd
  setOffset entry (offsetOf offset)

-- | Writes bytes, and returns how many were written.
writeAt :: Fd -> Offset -> ByteString -> Request Int
writeAt fd offset bytes = from "write" bytes $ \entry -> do
  setOpcode entry opWrite
  setFd entry fd
  setOffset entry (offsetOf offset)

-- | Waits until a file is on its device, as @fsync(2)@.
sync :: Fd -> Request ()
sync fd = fmap (const ()) . request "fsync" $ \entry -> setOpcode entry opFsync >> setFd entry fd

-- | Accepts a connection.
accept :: Fd -> Request Fd
accept fd = (Fd . fromIntegral <$> made) {undo = closeNow}
  where
    made = request "accept" $ \entry -> do
      setOpcode entry opAccept
      setFd entry fd
      setFlags entry 0o2000000 -- SOCK_CLOEXEC

-- | Connects a socket to an address of @size@ bytes, which must remain valid until the request has
-- ended.
connect :: Fd -> Ptr a -> Int -> Request ()
connect fd address size = fmap (const ()) . request "connect" $ \entry -> do
  setOpcode entry opConnect
  setFd entry fd
  setAddress entry address
  setOffset entry (fromIntegral size)

-- | Receives at most @size@ bytes: none if the peer has shut down.
receive :: Fd -> Int -> Request ByteString
receive fd size = into "recv" size $ \entry -> setOpcode entry opRecv >> setFd entry fd

-- | Receives at most @size@ bytes into memory that stays until the request has ended.
receiveInto :: Fd -> Ptr a -> Int -> Request Int
receiveInto fd memory size = memoryOf "recv" memory size $ \entry -> setOpcode entry opRecv >> setFd entry fd

-- | Receives a message of at most @size@ bytes into memory that stays until the request has ended. Returns its length and the address of its
-- sender, a @struct sockaddr@.
receiveMessage :: Fd -> Ptr a -> Int -> Request (Int, ByteString)
receiveMessage fd memory size = message "recvmsg" opRecvMsg fd 0 [(castPtr memory, size)] (ByteString.replicate addressRoom 0) $ \header count -> do
  length' <- peekByteOff header 8 :: IO Word32
  address <- peekByteOff header 0
  bytes <- Internal.create (fromIntegral length') $ \to -> copyBytes to address (fromIntegral length')
  pure (count, bytes)

-- | The size of @struct sockaddr_storage@.
addressRoom :: Int
addressRoom = 128

-- | Sends from memory that stays until the request has ended, and returns how many bytes were sent.
sendFrom :: Fd -> Ptr a -> Int -> Request Int
sendFrom fd memory size = memoryOf "send" memory size $ \entry -> do
  setOpcode entry opSend
  setFd entry fd
  setFlags entry noSignal

-- | Sends pieces of memory that stays until the request has ended, as one message, to an address, a @struct sockaddr@, or with an empty one to the
-- peer. Returns how many bytes were sent.
sendMessage :: Fd -> [(Ptr Word8, Int)] -> ByteString -> Request Int
sendMessage fd pieces address = message "sendmsg" opSendMsg fd noSignal pieces address (const pure)

-- | @MSG_NOSIGNAL@
noSignal :: Word32
noSignal = 0x4000

-- | A request with the header of a message, its pieces and its address in one memory.
message :: String -> Word8 -> Fd -> Word32 -> [(Ptr Word8, Int)] -> ByteString -> (Ptr () -> Int -> IO a) -> Request a
message name operation fd flags pieces address found =
  Request
    { allocate = mallocForeignPtrBytes (headerSize + vectorSize * length pieces + ByteString.length address)
    , encode = \memory entry -> withForeignPtr memory $ \header -> do
        let vectors = header `plusPtr` headerSize
            name' = vectors `plusPtr` (vectorSize * length pieces)
        fillBytes header 0 headerSize
        pokeByteOff header 0 (if ByteString.null address then nullPtr else name')
        pokeByteOff header 8 (fromIntegral (ByteString.length address) :: Word32)
        pokeByteOff header 16 vectors
        pokeByteOff header 24 (fromIntegral (length pieces) :: Word64)
        copyBytes name' (start address) (ByteString.length address)
        touch address
        forM_ (zip [0 ..] pieces) $ \(number, (piece, size)) -> do
          pokeByteOff vectors (vectorSize * number) piece
          pokeByteOff vectors (vectorSize * number + 8) (fromIntegral size :: Word64)
        setOpcode entry operation
        setFd entry fd
        setAddress entry header
        setLength entry 1
        setFlags entry flags
    , decode = \memory result _ -> do
        count <- check name result
        withForeignPtr memory $ \header -> found (castPtr header) (fromIntegral count)
    , undo = \_ -> pure ()
    , release = touchForeignPtr :: ForeignPtr Word8 -> IO ()
    }
  where
    -- The sizes of @struct msghdr@ and @struct iovec@.
    headerSize = 56
    vectorSize = 16

-- | A request on memory of the caller.
memoryOf :: String -> Ptr a -> Int -> (Ptr Entry -> IO ()) -> Request Int
memoryOf name memory size write = fmap fromIntegral . request name $ \entry -> do
  write entry
  setAddress entry memory
  setLength entry (fromIntegral size)

-- | Sends bytes, and returns how many were sent.
send :: Fd -> ByteString -> Request Int
send fd bytes = from "send" bytes $ \entry -> do
  setOpcode entry opSend
  setFd entry fd
  setFlags entry noSignal

-- | Shuts a socket down: 0 for reading, 1 for writing, 2 for both.
shutdown :: Fd -> Word32 -> Request ()
shutdown fd how = fmap (const ()) . request "shutdown" $ \entry -> do
  setOpcode entry opShutdown
  setFd entry fd
  setLength entry how

-- | A request that writes into new memory.
into :: String -> Int -> (Ptr Entry -> IO ()) -> Request ByteString
into name size write =
  Request
    { allocate = Internal.mallocByteString size
    , encode = \memory entry -> do
        write entry
        setAddress entry (unsafeForeignPtrToPtr memory)
        setLength entry (fromIntegral size)
    , decode = \memory result _ -> do
        count <- check name result
        pure (Internal.fromForeignPtr memory 0 (fromIntegral count))
    , undo = \_ -> pure ()
    , release = touchForeignPtr
    }

-- | A request that reads bytes.
from :: String -> ByteString -> (Ptr Entry -> IO ()) -> Request Int
from name bytes write =
  Request
    { allocate = pure bytes
    , encode = \text entry -> do
        write entry
        setAddress entry (start text)
        setLength entry (fromIntegral (ByteString.length text))
    , decode = \_ result _ -> fromIntegral <$> check name result
    , undo = \_ -> pure ()
    , release = touch
    }

-- | Where bytes begin, which the garbage collector does not move: valid until 'touch'.
start :: ByteString -> Ptr Word8
start bytes = let (memory, offset, _) = Internal.toForeignPtr bytes in unsafeForeignPtrToPtr memory `plusPtr` offset

touch :: ByteString -> IO ()
touch bytes = let (memory, _, _) = Internal.toForeignPtr bytes in touchForeignPtr memory

foreign import ccall unsafe "close"
  c_close :: CInt -> IO CInt

closeNow :: Int32 -> IO ()
closeNow = void . c_close . fromIntegral
