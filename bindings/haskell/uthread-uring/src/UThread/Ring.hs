{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE MagicHash #-}

-- | io_uring under Haskell's own threads.
--
-- > import UThread.Ring
-- > import qualified UThread.Ring.Request as Request
-- >
-- > main :: IO ()
-- > main = withManager defaultOptions $ \manager -> do
-- >   file <- submitBlocking manager (Request.openFile (pack "/etc/hostname") 0 0)
-- >   text <- submitBlocking manager (Request.readAt file (Request.At 0) 4096)
-- >   ByteString.putStr text
--
-- Link with @-threaded@: completions come from a thread of the manager.
module UThread.Ring
  ( -- * The manager
    Manager
  , withManager
  , Options (..)
  , Driver (..)
  , defaultOptions
  , managerDriver
  , supportsIOURing

    -- * Requests
  , submitBlocking
  , Request

    -- * Many results
  , module UThread.Ring.Stream
  ) where

import Control.Concurrent.MVar (newEmptyMVar, takeMVar)
import Control.Exception (SomeException, mask_, throwIO, try, uninterruptibleMask_)
import Control.Monad (when)
import Data.Int (Int32)
import Data.Word (Word64)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.Conc (PrimMVar, myThreadId, newStablePtrPrimMVar, threadCapability)
import Foreign.StablePtr (StablePtr, freeStablePtr)

import UThread.Ring.Manager
import UThread.Ring.Request (Request (..))
import UThread.Ring.Stream

-- | io_uring if the kernel permits it, without kernel polling. Requests gather.
defaultOptions :: Options
defaultOptions = Options {driver = Default, kernelPollingMs = Nothing, gathers = True}

foreign import ccall unsafe "uthread_hs_submit"
  c_submit :: Ptr CManager -> Ptr () -> IO Word64

foreign import ccall unsafe "uthread_cancel"
  c_cancel :: Ptr CManager -> Word64 -> IO ()

-- | Submits a request and returns its result. The Haskell thread waits, and no thread of the system.
--
-- An asynchronous exception cancels the request, and is thrown on when the kernel has let go of the memory. What the request has achieved until
-- then is undone, if the request can: an accepted connection is closed.
--
-- Throws an 'IOError' with the errno with which the request has failed.
submitBlocking :: Manager -> Request a -> IO a
submitBlocking (Manager manager) (Request begin write read' undoIt end) = mask_ $ do
  memory <- begin
  -- The fields of @struct uthread_hs_request@.
  (result, flags) <- allocaBytes 88 $ \request -> do
    fillBytes request 0 88
    write memory (castPtr request)
    (capability, _) <- threadCapability =<< myThreadId
    ended <- newEmptyMVar
    waiter <- newStablePtrPrimMVar ended
    pokeByteOff request 72 (fromIntegral capability :: Int32)
    pokeByteOff request 80 (waiter :: StablePtr PrimMVar)
    number <- c_submit manager request
    if number == 0 then freeStablePtr waiter else awaitEnd ended request number memory
    result <- peekByteOff request 64
    flags <- peekByteOff request 68
    pure (result, flags)
  end memory
  !value <- read' memory result flags
  pure value
  where
    awaitEnd ended request number memory = do
      woken <- try (takeMVar ended)
      case woken of
        Right () -> pure ()
        Left exception -> do
          c_cancel manager number
          uninterruptibleMask_ (takeMVar ended)
          result <- peekByteOff request 64 :: IO Int32
          when (result >= 0) (undoIt result)
          end memory
          throwIO (exception :: SomeException)
