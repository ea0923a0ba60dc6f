-- | Files and memory that are registered with the ring of a manager, which saves the kernel to look up the file and to lock the pages each time.
-- Direct I/O gains most. Where they cannot be registered, the same calls work without.
module UThread.Ring.Registered
  ( File
  , withRegisteredFile
  , readRegistered
  , writeRegistered
  , Memory
  , withRegisteredMemory
  , memoryBytes
  ) where

import Control.Exception (bracket)
import Control.Monad (when)
import Data.Int (Int32)
import Data.Word (Word64, Word8)
import Foreign.C.Error (Errno, eBADF, eNOMEM, errnoToIOError)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, nullPtr)
import System.Posix.Types (Fd (..))

import UThread.Ring.Manager
import UThread.Ring.Request (Request (..), request)
import UThread.Ring.Submit (submitBy)

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
