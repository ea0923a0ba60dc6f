{-# LANGUAGE BangPatterns #-}

-- | How a Haskell thread waits for the end of a request, or of several.
module UThread.Ring.Submit (submitBlocking, submitBy, submitChain) where

import Control.Concurrent.MVar (MVar, newEmptyMVar, readMVar, takeMVar)
import Control.Exception (SomeException, mask_, throwIO, try, uninterruptibleMask_)
import Control.Monad (when, zipWithM)
import Data.Int (Int32)
import Data.Word (Word32, Word64)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.StablePtr (StablePtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.Conc (PrimMVar, myThreadId, newStablePtrPrimMVar, threadCapability)

import UThread.Ring.Manager
import UThread.Ring.Request (Request (..))

foreign import ccall unsafe "uthread_hs_submit"
  c_submit :: Ptr CManager -> Ptr () -> IO Word64

foreign import ccall unsafe "uthread_hs_submit_chain"
  c_submitChain :: Ptr CManager -> Ptr () -> Word32 -> IO Word64

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
submitBy start (Manager shared) (Request allocate' write read' undoIt end) = mask_ . withForeignPtr shared $ \manager -> do
  memory <- allocate'
  (result, flags) <- allocaBytes requestSize $ \request -> do
    fillBytes request 0 requestSize
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
      mvar <- fillAtEnd request
      number <- start manager request
      woken <- try (takeMVar mvar)
      case woken of
        Right () -> pure ()
        Left exception -> do
          c_cancel manager number
          uninterruptibleMask_ (takeMVar mvar)
          result <- peekByteOff request 64 :: IO Int32
          when (result >= 0) (undoIt result)
          end memory
          throwIO (exception :: SomeException)

-- | Submits requests of which each begins when the one before has ended, without a turn of the thread in between. Returns their results in this
-- order. When one fails, or reads or writes less than it should, the rest is cancelled: it fails with @ECANCELED@.
--
-- An asynchronous exception cancels all of them, as for 'submitBlocking'. A chain has at most 32 requests; a longer one is an 'IOError'.
submitChain :: Manager -> [Request a] -> IO [Either IOError a]
submitChain _ [] = pure []
submitChain (Manager shared) requests
  | count > 32 = ioError (userError "a chain has at most 32 requests")
  | otherwise = mask_ . withForeignPtr shared $ \manager -> allocaBytes (count * requestSize) $ \memory -> do
      fillBytes memory 0 (count * requestSize)
      links <- zipWithM (\index -> begin (memory `plusPtr` (index * requestSize))) [0 ..] requests
      number <- c_submitChain manager memory (fromIntegral count)
      woken <- try (mapM_ (readMVar . ended) links)
      case woken of
        Right () -> mapM (try . finish) links
        Left exception -> do
          c_cancel manager number
          uninterruptibleMask_ (mapM_ (readMVar . ended) links)
          mapM_ abandon links
          throwIO (exception :: SomeException)
  where
    count = length requests

-- | A request of a chain.
data Link a = Link
  { ended :: MVar ()
  , finish :: IO a
  , abandon :: IO ()
  }

begin :: Ptr () -> Request a -> IO (Link a)
begin request (Request allocate' write read' undoIt end) = do
  memory <- allocate'
  write memory (castPtr request)
  mvar <- fillAtEnd request
  let result = peekByteOff request 64 :: IO Int32
  pure
    Link
      { ended = mvar
      , finish = do
          found <- result
          flags <- peekByteOff request 68
          end memory
          !value <- read' memory found flags
          pure value
      , abandon = do
          found <- result
          when (found >= 0) (undoIt found)
          end memory
      }

-- | Returns what is filled when the request has ended.
fillAtEnd :: Ptr () -> IO (MVar ())
fillAtEnd request = do
  (capability, _) <- threadCapability =<< myThreadId
  mvar <- newEmptyMVar
  waiter <- newStablePtrPrimMVar mvar
  pokeByteOff request 72 (fromIntegral capability :: Int32)
  pokeByteOff request 80 (waiter :: StablePtr PrimMVar)
  pure mvar

-- | The size of @struct uthread_hs_request@.
requestSize :: Int
requestSize = 88
