-- | The waits of GHC's event manager, in a ring that the program shares: for libraries that wait by "GHC.Conc".
--
-- > import UThread.Ring.Wait (threadWaitRead, threadWaitWrite)
module UThread.Ring.Wait
  ( threadWaitRead
  , threadWaitWrite
  ) where

import Control.Monad (void)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Types (Fd)

import UThread.Ring (Manager, defaultOptions, newManager, submitBlocking)
import qualified UThread.Ring.Request as Request

-- | Started by the first wait, and stopped by the end of the program.
shared :: Manager
shared = unsafePerformIO (newManager defaultOptions)
{-# NOINLINE shared #-}

-- | Waits until the descriptor can be read: what "GHC.Conc" has by this name. Throws an 'IOError' if it is closed.
threadWaitRead :: Fd -> IO ()
threadWaitRead fd = void (submitBlocking shared (Request.poll fd pollIn))
  where
    pollIn = 1

-- | Waits until the descriptor can be written.
threadWaitWrite :: Fd -> IO ()
threadWaitWrite fd = void (submitBlocking shared (Request.poll fd pollOut))
  where
    pollOut = 4
