{-# LANGUAGE CApiFFI #-}

-- | The manager: a thread of its own that owns a ring. GHC's threads must not own one, as the end of a thread cancels its
-- requests.
module UThread.Ring.Manager
  ( Manager (..)
  , CManager
  , Options (..)
  , Driver (..)
  , withManager
  , newManager
  , managerDriver
  , supportsIOURing
  ) where

import Control.Exception (bracket)
import Control.Monad (when)
import Data.Int (Int32)
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), errnoToIOError)
import Foreign.C.String (CString, peekCString)
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke, pokeByteOff)

-- | The C library's type.
data CManager

-- | A ring and the thread that owns it.
newtype Manager = Manager (ForeignPtr CManager)

-- | How a manager reaches the kernel.
data Driver
  = -- | io_uring, or epoll where the kernel refuses it.
    Default
  | Uring
  | Epoll
  deriving (Eq, Show, Enum)

-- | How a manager is created.
data Options = Options
  { driver :: Driver
  , -- | A thread of the kernel polls for submissions, until it has been idle for this number of milliseconds.
    kernelPollingMs :: Maybe Word32
  , -- | The manager's thread does not interrupt the Haskell threads, so that requests gather while these use its CPU. Where all CPUs compute for long, turn it
    -- off: a request may wait for some milliseconds behind them.
    gathers :: Bool
  }

foreign import ccall safe "uthread_manager_create"
  c_create :: Ptr () -> Ptr (Ptr CManager) -> IO Int32

foreign import ccall safe "uthread_manager_stop"
  c_stop :: Ptr CManager -> IO ()

foreign import ccall "&uthread_manager_close"
  c_close :: FinalizerPtr CManager

foreign import ccall unsafe "uthread_manager_driver"
  c_driver :: Ptr CManager -> IO CString

foreign import ccall unsafe "uthread_manager_has_ring"
  c_hasRing :: Ptr CManager -> IO Int32

-- | Calls an action with a manager, which is stopped afterwards. Requests that have not ended by then, and later ones, are cancelled: the threads that
-- wait for them get an 'IOError'.
--
-- Fails with an 'IOError' if the kernel refuses io_uring and the options ask for it.
withManager :: Options -> (Manager -> IO a) -> IO a
withManager options = bracket (newManager options) (\(Manager manager) -> withForeignPtr manager c_stop)

-- | Creates a manager that runs until nothing uses it any more. Fails as 'withManager'.
newManager :: Options -> IO Manager
newManager options = allocaBytes 12 $ \memory -> alloca $ \made -> do
  poke made nullPtr
  pokeByteOff memory 0 (fromIntegral (fromEnum (driver options)) :: Word32)
  pokeByteOff memory 4 (maybe 0 id (kernelPollingMs options) :: Word32)
  pokeByteOff memory 8 (fromIntegral (fromEnum (gathers options)) :: Word32)
  result <- c_create memory made
  when (result < 0) . ioError $
    errnoToIOError "uthread_manager_create" (Errno (fromIntegral (negate result))) Nothing Nothing
  -- Freed when no thread uses it any more.
  Manager <$> (peek made >>= newForeignPtr c_close)

-- | The driver and why it was chosen, for people.
managerDriver :: Manager -> IO String
managerDriver (Manager manager) = withForeignPtr manager $ \pointer -> c_driver pointer >>= peekCString

-- | 'True' if the manager has a ring, and 'False' if epoll takes its place.
supportsIOURing :: Manager -> IO Bool
supportsIOURing (Manager manager) = (/= 0) <$> withForeignPtr manager c_hasRing
