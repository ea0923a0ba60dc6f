-- | Files and memory that are registered with the ring of a manager, which saves the kernel to look up the file and to lock the pages each time.
-- Direct I/O gains most. Where they cannot be registered, the same calls work without.
-- Connections without a descriptor, too.
module UThread.Ring.Registered
  ( File
  , withRegisteredFile
  , readRegistered
  , writeRegistered
  , Memory
  , withRegisteredMemory
  , memoryBytes

    -- * Connections without a descriptor
  , Table
  , withTable
  , Connection
  , acceptRegistered
  , receiveRegistered
  , sendRegistered
  , closeRegistered
  ) where

import Control.Exception (SomeException, bracket, mask_, onException, try, uninterruptibleMask_)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Int (Int32)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Error (Errno, eBADF, eNOMEM, errnoToIOError)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (pokeByteOff)
import System.Posix.Types (Fd (..))

import UThread.Ring.Manager
import UThread.Ring.Request (Entry, Request (..), request, setFd, setOpcode)
import qualified UThread.Ring.Request as Request
import UThread.Ring.Submit (submitBlocking, submitBy)

data CFile

data CMemory

-- | A registered file.
newtype File = File (Ptr CFile)

-- | Registered memory.
newtype Memory = Memory (Ptr CMemory)

foreign import ccall safe "uthread_file_register"
  c_register :: Ptr CManager -> CInt -> IO (Ptr CFile)

foreign import ccall safe "uthread_file_close"
  c_close :: Ptr CFile -> IO ()

foreign import ccall safe "uthread_memory_create"
  c_create :: Ptr CManager -> CSize -> IO (Ptr CMemory)

foreign import ccall safe "uthread_memory_free"
  c_free :: Ptr CMemory -> IO ()

foreign import ccall unsafe "uthread_memory_bytes"
  c_bytes :: Ptr CMemory -> IO (Ptr Word8)

foreign import ccall unsafe "uthread_hs_access"
  c_access :: Ptr CManager -> Ptr () -> Ptr CFile -> Ptr Word8 -> CSize -> Word64 -> CInt -> IO Word64

data CSlots

foreign import ccall safe "uthread_slots_reserve"
  c_reserve :: Ptr CManager -> Word32 -> Ptr Word32 -> IO (Ptr CSlots)

foreign import ccall safe "uthread_slots_free"
  c_freeSlots :: Ptr CSlots -> IO ()

failed :: String -> Errno -> IO a
failed name errno = ioError (errnoToIOError name errno Nothing Nothing)

-- | Registers a file and closes it after the action. Its descriptor must not be closed by others.
withRegisteredFile :: Manager -> Fd -> (File -> IO a) -> IO a
withRegisteredFile (Manager manager) (Fd fd) = bracket create (\(File file) -> c_close file)
  where
    create = do
      file <- withForeignPtr manager (`c_register` fd)
      when (file == nullPtr) $ failed "uthread_file_register" eBADF
      pure (File file)

-- | Allocates @size@ bytes of registered memory, all zeros, and frees them after the action.
withRegisteredMemory :: Manager -> Int -> (Memory -> IO a) -> IO a
withRegisteredMemory (Manager manager) size = bracket create (\(Memory memory) -> c_free memory)
  where
    create = do
      memory <- withForeignPtr manager (`c_create` fromIntegral size)
      when (memory == nullPtr) $ failed "uthread_memory_create" eNOMEM
      pure (Memory memory)

-- | Returns the address of the memory, which is that of a page.
memoryBytes :: Memory -> IO (Ptr Word8)
memoryBytes (Memory memory) = c_bytes memory

-- | Reads at most @size@ bytes at an offset, and returns their number: none at the end of the file. The
-- bytes may lie in registered memory.
readRegistered :: Manager -> File -> Ptr Word8 -> Int -> Word64 -> IO Int
readRegistered manager file = access "read" manager file 0

-- | Writes bytes at an offset, and returns how many were written.
writeRegistered :: Manager -> File -> Ptr Word8 -> Int -> Word64 -> IO Int
writeRegistered manager file = access "write" manager file 1

access :: String -> Manager -> File -> CInt -> Ptr Word8 -> Int -> Word64 -> IO Int
access name manager (File file) writes bytes size offset =
  fromIntegral <$> submitBy start manager (request name (const (pure ())) :: Request Int32)
  where
    start manager' ending = c_access manager' ending file bytes (fromIntegral size) offset writes

-- | Slots for connections in the file table of a ring, and those of them that are free.
data Table = Table Manager (IORef [Word32])

-- | A connection in a table. It is no @Socket@, as the process has no descriptor of it.
data Connection = Connection Table (IORef Place)

data Place = Slot Word32 | Descriptor Fd | Closed

-- | Calls an action with a table for @size@ connections, which are closed afterwards. A ring has 1024 slots for all that is registered.
-- Where it has fewer left, where there is no ring, and for more connections at a time, connections have an ordinary descriptor: they
-- stay open until 'closeRegistered'.
withTable :: Manager -> Int -> (Table -> IO a) -> IO a
withTable manager@(Manager shared) size action = bracket reserve (free . fst) $ \(_, indexes) ->
  newIORef indexes >>= action . Table manager
  where
    reserve = allocaArray size $ \memory -> do
      slots <- withForeignPtr shared $ \pointer -> c_reserve pointer (fromIntegral size) memory
      indexes <- if slots == nullPtr then pure [] else peekArray size memory
      pure (slots, indexes)
    free slots = unless (slots == nullPtr) (c_freeSlots slots)

-- | Accepts a connection of a listening socket, which is blocking. An exception loses none.
acceptRegistered :: Table -> Fd -> IO Connection
acceptRegistered table@(Table manager free) listener = mask_ $ do
  slot <- atomicModifyIORef' free $ \slots -> (drop 1 slots, take 1 slots)
  place <- case slot of
    index : _ -> Slot index <$ submitBlocking manager (into index) `onException` giveBack table index
    [] -> Descriptor <$> submitBlocking manager (Request.accept listener)
  Connection table <$> newIORef place
  where
    into index = (request "accept" (write index)) {undo = const (closeSlot manager index)}
    write index entry = setOpcode entry accept >> setFd entry listener >> setSlot entry index
    -- IORING_OP_ACCEPT
    accept = 13

-- | Receives at most @size@ bytes: none if the peer has shut down.
receiveRegistered :: Connection -> Int -> IO ByteString
receiveRegistered connection size = onConnection connection (`Request.receive` size)

-- | Sends all bytes.
sendRegistered :: Connection -> ByteString -> IO ()
sendRegistered connection bytes = unless (ByteString.null bytes) $ do
  sent <- onConnection connection (`Request.send` bytes)
  sendRegistered connection (ByteString.drop sent bytes)

-- | Closes a connection, before Linux 6.4 up to a second later. No other call uses it at the same time; later ones fail. Closing it again does
-- nothing.
closeRegistered :: Connection -> IO ()
closeRegistered (Connection table@(Table manager _) place) = mask_ $ do
  found <- atomicModifyIORef' place $ \found -> (Closed, found)
  case found of
    Slot index -> closeSlot manager index >> giveBack table index
    Descriptor fd -> submitBlocking manager (Request.close fd)
    Closed -> pure ()

giveBack :: Table -> Word32 -> IO ()
giveBack (Table _ free) index = atomicModifyIORef' free $ \slots -> (index : slots, ())

-- | Submits a request for the descriptor, or for the slot.
onConnection :: Connection -> (Fd -> Request a) -> IO a
onConnection (Connection (Table manager _) place) make = do
  found <- readIORef place
  case found of
    Slot index -> submitBlocking manager (fixed (make (fromIntegral index)))
    Descriptor fd -> submitBlocking manager (make fd)
    Closed -> failed "a closed connection" eBADF

-- | Makes the descriptor of a request a slot: IOSQE_FIXED_FILE.
fixed :: Request a -> Request a
fixed (Request allocate' write read' undo' end) = Request allocate' write' read' undo' end
  where
    write' memory entry = write memory entry >> pokeByteOff entry 1 (1 :: Word8)

-- | Sets the slot that a request fills or empties: @file_index@.
setSlot :: Ptr Entry -> Word32 -> IO ()
setSlot entry index = pokeByteOff entry 44 (index + 1)

-- | Closes what is in a slot. A manager that has ended has closed it.
closeSlot :: Manager -> Word32 -> IO ()
closeSlot manager index = void (try (uninterruptibleMask_ (submitBlocking manager close)) :: IO (Either SomeException Int32))
  where
    close = request "close" $ \entry -> setOpcode entry operation >> setSlot entry index
    -- IORING_OP_CLOSE
    operation = 19
