{-# LANGUAGE BangPatterns #-}

-- | How a Haskell thread waits for the end of a request.
module UThread.Ring.Submit (submitBlocking, submitBy) where

import Control.Concurrent.MVar (newEmptyMVar, takeMVar)
import Control.Exception (SomeException, mask_, throwIO, try, uninterruptibleMask_)
import Control.Monad (when)
import Data.Int (Int32)
import Data.Word (Word64)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.StablePtr (StablePtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.Conc (PrimMVar, myThreadId, newStablePtrPrimMVar, threadCapability)

import UThread.Ring.Manager
import UThread.Ring.Request (Request (..))

foreign import ccall unsafe "uthread_hs_submit"
  c_submit :: Ptr CManager -> Ptr () -> IO Word64

foreign import ccall unsafe "uthread_hs_carry_out"
  c_carryOut :: Ptr () -> IO CInt

foreign import ccall unsafe "uthread_cancel"
  c_cancel :: Ptr CManager -> Word64 -> IO ()

-- | Submits a request and returns its result. The Haskell thread waits, and no thread of the system.
--
-- An asynchronous exception cancels the request, and is thrown on when the kernel has let go of the memory. What the request has achieved until
-- then is undone, if the request can: an accepted connection is closed.
--
-- Throws an 'IOError' with the errno with which the request has failed.
submitBlocking :: Manager -> Request a -> IO a
submitBlocking = submitBy c_submit

-- | Submits a request by one of the C functions.
submitBy :: (Ptr CManager -> Ptr () -> IO Word64) -> Manager -> Request a -> IO a
submitBy start (Manager shared) (Request begin write read' undoIt end) = mask_ . withForeignPtr shared $ \manager -> do
  memory <- begin
  -- The fields of @struct uthread_hs_request@.
  (result, flags) <- allocaBytes 88 $ \request -> do
    fillBytes request 0 88
    write memory (castPtr request)
    carriedOut <- c_carryOut request
    when (carriedOut == 0) $ await manager request memory
    result <- peekByteOff request 64
    flags <- peekByteOff request 68
    pure (result, flags)
  end memory
  !value <- read' memory result flags
  pure value
  where
    await manager request memory = do
      (capability, _) <- threadCapability =<< myThreadId
      ended <- newEmptyMVar
      waiter <- newStablePtrPrimMVar ended
      pokeByteOff request 72 (fromIntegral capability :: Int32)
      pokeByteOff request 80 (waiter :: StablePtr PrimMVar)
      number <- start manager request
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
