-- | Requests with many results: one multishot request where the kernel has it.
module UThread.Ring.Stream
  ( Stream
  , next
  , withMultishot
  , Multishot
  , accepting
  , receiving
  , receivingCopies
  , polling
  , Buffers
  , withBuffers
  ) where

import Control.Concurrent.MVar (newEmptyMVar, takeMVar)
import Control.Exception (bracket, mask_, uninterruptibleMask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Internal as Internal
import Data.Int (Int32)
import Data.Word (Word16, Word32, Word8)
import Foreign.C.Error (Errno (..), eINVAL, eNOMEM, errnoToIOError)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (FinalizerEnvPtr, newForeignPtrEnv, withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.StablePtr (StablePtr, freeStablePtr)
import Foreign.Storable (peekByteOff)
import GHC.Conc (PrimMVar, myThreadId, newStablePtrPrimMVar, threadCapability)
import System.Posix.Types (Fd (..))

import UThread.Ring.Manager

data CStream

data CBuffers

data CChunk

-- | Buffers into which the kernel receives.
newtype Buffers = Buffers (Ptr CBuffers)

-- | A request with many results. One thread at a time takes them.
data Stream a = Stream (Ptr CStream) (Item -> IO a)

data Item = Item Int32 (Ptr Word8) (Ptr CChunk)

-- | A request with many results of type @a@.
data Multishot a = Multishot
  { descriptor :: Fd
  , -- | Null unless the request receives data.
    intoBuffers :: Ptr CBuffers
  , -- | Zero unless the request waits for events.
    ofEvents :: Word32
  , decode :: Item -> IO a
  , discard :: Item -> IO ()
  }

-- | Accepts connections of a listening socket.
accepting :: Fd -> Multishot Fd
accepting fd =
  Multishot
    { descriptor = fd
    , intoBuffers = nullPtr
    , ofEvents = 0
    , decode = \(Item result _ _) -> pure (Fd (fromIntegral result))
    , discard = \(Item result _ _) -> () <$ c_close (fromIntegral result)
    }

-- | Receives data on a connected socket until its peer shuts down. The bytes are those of a buffer,
-- without a copy: the buffer returns to the kernel when the garbage collector frees the bytes. If no
-- buffer is free, data is received into newly allocated memory.
receiving :: Fd -> Buffers -> Multishot ByteString
receiving fd (Buffers buffers) =
  Multishot
    { descriptor = fd
    , intoBuffers = buffers
    , ofEvents = 0
    , decode = \(Item size bytes chunk) -> do
        memory <- newForeignPtrEnv c_release chunk bytes
        pure (Internal.fromForeignPtr memory 0 (fromIntegral size))
    , discard = \(Item _ _ chunk) -> c_releaseNow chunk
    }

-- | Receives data like 'receiving', but copies it and returns the buffer to the kernel at once:
-- cheaper for short messages.
receivingCopies :: Fd -> Buffers -> Multishot ByteString
receivingCopies fd buffers =
  (receiving fd buffers)
    { decode = \(Item size bytes chunk) -> do
        copy <- Internal.create (fromIntegral size) $ \memory -> copyBytes memory bytes (fromIntegral size)
        copy <$ c_releaseNow chunk
    }

-- | Waits for any of these @POLL*@ events of a descriptor.
polling :: Fd -> Word32 -> Multishot Word32
polling fd events =
  Multishot
    { descriptor = fd
    , intoBuffers = nullPtr
    , ofEvents = events
    , decode = \(Item result _ _) -> pure (fromIntegral result)
    , discard = \_ -> pure ()
    }

foreign import ccall unsafe "uthread_hs_stream_start"
  c_start :: Ptr CManager -> CInt -> Ptr CBuffers -> Word32 -> Word32 -> IO (Ptr CStream)

foreign import ccall unsafe "uthread_hs_stream_take"
  c_take :: Ptr CStream -> Ptr Item -> Int32 -> StablePtr PrimMVar -> IO CInt

foreign import ccall unsafe "uthread_hs_stream_cancel"
  c_cancel :: Ptr CStream -> IO ()

foreign import ccall unsafe "uthread_hs_stream_free"
  c_free :: Ptr CStream -> IO ()

foreign import ccall "&uthread_hs_release"
  c_release :: FinalizerEnvPtr CChunk Word8

foreign import ccall unsafe "uthread_buffers_create"
  c_createBuffers :: Word16 -> CSize -> IO (Ptr CBuffers)

foreign import ccall unsafe "uthread_buffers_destroy"
  c_destroyBuffers :: Ptr CBuffers -> IO ()

-- | Calls an action with buffers: their number, a power of two up to 32768, and the size of each in bytes. They may be used with one manager.
withBuffers :: Word16 -> Int -> (Buffers -> IO a) -> IO a
withBuffers count size = bracket create (\(Buffers buffers) -> c_destroyBuffers buffers)
  where
    create = do
      buffers <- c_createBuffers count (fromIntegral size)
      when (buffers == nullPtr) $ failed "uthread_buffers_create" eINVAL
      pure (Buffers buffers)

failed :: String -> Errno -> IO a
failed name errno = ioError (errnoToIOError name errno Nothing Nothing)

-- | Calls an action with a stream, which is cancelled afterwards; items that were not
-- taken are closed or given back. At most @capacity@ items wait to be taken; further ones, and their
-- senders, wait in the kernel.
withMultishot :: Manager -> Multishot a -> Word32 -> (Stream a -> IO b) -> IO b
withMultishot (Manager shared) (Multishot (Fd fd) buffers events decodeItem discardItem) capacity action =
  -- The stream refers to the manager until it is freed.
  withForeignPtr shared $ \manager -> bracket (start manager) end action
  where
    start manager = do
      stream <- c_start manager fd buffers events (max 1 capacity)
      when (stream == nullPtr) $ failed "uthread_hs_stream_start" eNOMEM
      pure (Stream stream decodeItem)
    end (Stream stream _) = uninterruptibleMask_ $ do
      c_cancel stream
      drain stream
      c_free stream
    -- Takes the remaining items: the memory of the stream has to outlive them.
    drain stream = do
      taken <- takeItem stream
      case taken of
        Left _ -> pure ()
        Right item -> discardItem item >> drain stream

foreign import ccall unsafe "close"
  c_close :: CInt -> IO CInt

foreign import ccall unsafe "uthread_chunk_release"
  c_releaseNow :: Ptr CChunk -> IO ()

-- | Returns the next item, or 'Nothing' at the end of the stream.
--
-- Throws an 'IOError' with the errno with which the request has failed.
next :: Stream a -> IO (Maybe a)
next (Stream stream decodeItem) = mask_ $ do
  taken <- takeItem stream
  case taken of
    Right item -> Just <$> decodeItem item
    Left 0 -> pure Nothing
    Left result -> failed "multishot" (Errno (fromIntegral (negate result)))

-- | Takes an item, or returns the result of the stream at its end.
takeItem :: Ptr CStream -> IO (Either Int32 Item)
takeItem stream = do
  (capability, _) <- threadCapability =<< myThreadId
  arrived <- newEmptyMVar
  waiter <- newStablePtrPrimMVar arrived
  (how, item) <- allocaBytes 24 $ \memory -> do
    how <- c_take stream memory (fromIntegral capability) waiter
    item <- Item <$> peekByteOff memory 0 <*> peekByteOff memory 8 <*> peekByteOff memory 16
    pure (how, item)
  case how of
    0 -> freeStablePtr waiter >> pure (Right item)
    1 -> let Item result _ _ = item in freeStablePtr waiter >> pure (Left result)
    _ -> takeMVar arrived >> takeItem stream
